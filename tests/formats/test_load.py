"""Every format gives the same crystals back; what cannot be read is named, never lost, never a traceback."""

from __future__ import annotations

import gzip
import tracemalloc
import zipfile
from pathlib import Path

import ase.db
import ase.io
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from monty.serialization import loadfn
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.formats import READERS, Skipped, files, load, write

OUTPUTS = ["a.extxyz", "a.db", "a.json", "a.json.gz", "a.csv", "a.parquet", "a.cif", "cifs", "a.zip"]


def invented() -> list[Structure]:
    """Rock salt, a skewed cell of six atoms with coordinates outside [0, 1), a left-handed cell."""
    skewed = Lattice.from_parameters(3.9, 5.1, 6.7, 71.0, 83.5, 104.25)
    sites = [
        [0.01, 0.2, 0.3],
        [0.51, 0.7, -0.2],
        [0.3, 1.05, 0.9],
        [0.9, 0.4, 0.6],
        [0.1, 0.6, 0.1],
        [0.7, 0.1, 0.5],
    ]
    corners = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    left = Lattice([[0.0, 4.0, 0.1], [4.4, 0.0, 0.0], [0.3, 0.0, 5.0]])
    return [
        Structure(Lattice.cubic(5.6), ["Na"] * 4 + ["Cl"] * 4, [*corners, *(corners + 0.5)]),
        Structure(skewed, ["Li", "Fe", "O", "O", "F", "Li"], sites),
        Structure(
            left,
            ["Si", "O", "H", "O"],
            [[0.1, 0.2, 0.3], [0.6, 0.5, 0.8], [0.35, 0.9, 0.05], [0.8, 0.1, 0.4]],
        ),
    ]


@pytest.fixture
def crystals() -> Crystals:
    return Crystals.from_structures(invented())


IDS = ["mp-1", "17", "a b/c 'x'"]
PROPERTIES = {
    "energy": np.array([-27.25, np.nan, -1.5]),
    "e_above_hull": np.array([0.0, 0.125, np.nan]),
    "magmom": np.array([np.nan, 2.5, 0.0]),  # a name ASE keeps for itself
    "spacegroup.number": np.array([225.0, 1.0, 1.0]),
}


def assert_same_geometry(one: Crystals, other: Crystals, *, atol: float) -> None:
    """Same atoms in the same order; cells and positions equal up to a rotation."""
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.numbers, other.numbers)
    np.testing.assert_allclose(gram(one.lattice), gram(other.lattice), atol=20 * atol)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(gram(relative(a)), gram(relative(b)), atol=30 * atol)
        assert handedness(a) == handedness(b)


def gram(vectors: np.ndarray) -> np.ndarray:
    return vectors @ np.swapaxes(vectors, -1, -2)


def relative(one: Crystals) -> np.ndarray:
    return one.cart - one.cart[0]


def handedness(one: Crystals) -> float:
    """Sign of the volume that the first four atoms span: a mirror image has the other one."""
    return float(np.sign(np.linalg.det(relative(one)[1:4])))


# Round trips


@pytest.mark.parametrize("name", OUTPUTS)
def test_write_then_load_gives_everything_back(name: str, crystals: Crystals, tmp_path: Path) -> None:
    write(tmp_path / name, crystals, IDS, PROPERTIES)
    loaded = load(tmp_path / name)
    order = np.argsort([IDS.index(id) for id in loaded.ids])  # a folder is read by file name
    assert [loaded.ids[i] for i in order] == IDS
    assert_same_geometry(loaded.crystals[order], crystals, atol=2e-8)
    assert set(loaded.properties) == set(PROPERTIES)
    for key, values in PROPERTIES.items():
        np.testing.assert_array_equal(loaded.properties[key][order], values, err_msg=key)
    assert loaded.skipped == []
    assert loaded.n_read == 3


@pytest.mark.parametrize("name", ["a.extxyz", "a.db", "a.json", "a.parquet"])
def test_orientation_and_coordinates_are_kept(name: str, crystals: Crystals, tmp_path: Path) -> None:
    loaded = load(write(tmp_path / name, crystals))
    np.testing.assert_allclose(loaded.crystals.lattice, crystals.lattice, atol=1e-12)
    np.testing.assert_allclose(loaded.crystals.frac, crystals.frac, atol=1e-8)
    assert loaded.ids == ["crystal-0", "crystal-1", "crystal-2"]


@settings(max_examples=30, deadline=None)
@given(
    frac=arrays(np.float64, (4, 3), elements=st.floats(-2, 2, width=32)),
    lengths=st.tuples(*[st.floats(2.0, 30.0)] * 3),
    angles=st.tuples(*[st.floats(65.0, 115.0)] * 3),
)
def test_cif_round_trip_of_any_cell(frac, lengths, angles, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    structure = Structure(Lattice.from_parameters(*lengths, *angles), ["Na", "Cl", "O", "H"], frac)
    crystals = Crystals.from_structures(structure)
    loaded = load(write(tmp_path_factory.mktemp("cif") / "a.cif", crystals))
    np.testing.assert_allclose(loaded.crystals.frac, frac, atol=1e-9)
    np.testing.assert_allclose(loaded.crystals.lattice, crystals.lattice, atol=1e-7)


def test_what_is_written_opens_in_the_tools_people_use(crystals: Crystals, tmp_path: Path) -> None:
    structures = crystals.to_structures()
    for name in ("a.extxyz", "a.db", "a.json", "cifs"):
        write(
            tmp_path / name,
            crystals,
            ["x", "y", "z"],
            {"e_above_hull": [0.0, 0.1, 0.2], "energy": [-1.0, -2.0, -3.0]},
        )
    frames = ase.io.read(tmp_path / "a.extxyz", index=":")
    assert [a.get_potential_energy() for a in frames] == [-1.0, -2.0, -3.0]
    assert frames[1].info["material_id"] == "y"
    with ase.db.connect(tmp_path / "a.db") as database:
        assert [row.material_id for row in database.select("e_above_hull<0.15")] == ["x", "y"]
    from_json = loadfn(tmp_path / "a.json")
    assert [s.properties["material_id"] for s in from_json] == ["x", "y", "z"]
    np.testing.assert_allclose(from_json[1].frac_coords, structures[1].frac_coords)
    for name, structure in zip("xyz", structures, strict=True):
        by_pymatgen = Structure.from_file(tmp_path / "cifs" / f"{name}.cif")
        np.testing.assert_allclose(
            np.sort(by_pymatgen.distance_matrix.ravel()),
            np.sort(structure.distance_matrix.ravel()),
            atol=1e-6,
        )
        by_ase = ase.io.read(tmp_path / "cifs" / f"{name}.cif")
        assert by_ase.get_chemical_formula() == structure.to_ase_atoms().get_chemical_formula()


# Folders, archives, compression


def test_folder_in_natural_order_with_other_files_passed_over(crystals: Crystals, tmp_path: Path) -> None:
    folder = tmp_path / "generated"
    for i in (10, 2, 1):
        write(folder / f"part_{i}.extxyz", crystals[i % 3], [f"c{i}"])
    write(folder / "part_1²2.extxyz", crystals[0], ["c1²2"])  # a digit to Python, and no number
    write(folder / "deeper" / "x.cif", crystals[0], ["deep"])
    (folder / "notes.txt").write_text("words")
    (folder / ".hidden.cif").write_text("no CIF")
    loaded = load(folder)
    assert loaded.ids == ["deep", "c1", "c1²2", "c2", "c10"]
    assert sorted(Path(p).name for p in loaded.ignored) == [".hidden.cif", "notes.txt"]
    assert load(folder, limit=2).ids == ["deep", "c1"]
    assert load([folder / "part_2.extxyz", folder / "deeper"]).ids == ["c2", "deep"]


@pytest.mark.parametrize("name", ["a.extxyz", "a.csv", "a.parquet", "a.json", "a.db", "a.cif"])
def test_compressed_and_unnamed_files_are_recognised(name: str, crystals: Crystals, tmp_path: Path) -> None:
    plain = write(tmp_path / name, crystals, ["x", "y", "z"])
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    without_ending = tmp_path / "data_without_ending"
    without_ending.write_bytes(plain.read_bytes())
    nothing_told = tmp_path / "reference.gz"
    nothing_told.write_bytes(packed.read_bytes())
    for path in (packed, without_ending, nothing_told):
        assert load(path).ids == ["x", "y", "z"]
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.write(packed, f"inside/{name}.gz")
    assert load(tmp_path / "archive.zip").ids == ["x", "y", "z"]


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LEAST_ALLOWANCE", 2**20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * 2**23 + b"]"))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(8):
            archive.writestr(f"{i}.cif", "#" + " " * 2**20)
    for name in ("bomb.json.gz", "bomb.zip"):
        loaded_reasons = [s.reason for s in load(tmp_path / name, on_error="skip").skipped]
        assert any("decompression bomb" in reason for reason in loaded_reasons)


def test_an_archive_of_a_version_to_come_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.cif", "data_a")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 6] = 84  # version needed to extract, in the list of members
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.zip.*version"):
        load(path)


def test_paths_in_archives_never_reach_the_disk(crystals: Crystals, tmp_path: Path) -> None:
    text = write(tmp_path / "good.cif", crystals[0], ["good"]).read_text()
    folder = tmp_path / "here"
    folder.mkdir()
    with zipfile.ZipFile(folder / "evil.zip", "w") as archive:
        archive.writestr("../../escaped.cif", text)
        archive.writestr("/absolute.cif", text)
        archive.writestr("../escaped.db", b"SQLite format 3\0 but broken")
    before = sorted(p for p in tmp_path.rglob("*"))
    loaded = load(folder / "evil.zip", on_error="skip")
    assert len(loaded) == 2
    assert len(loaded.skipped) == 1
    assert sorted(p for p in tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "escaped.cif").exists()


GARBAGE_NAMES = ["a.cif", "a.csv", "a.parquet", "a.extxyz", "a.json", "a.db", "a.lmdb", "a.zip", "POSCAR"]


@pytest.mark.parametrize("name", [*GARBAGE_NAMES, "a.cif.gz", "a.csv.xz", "a.json.bz2", "unknown.bin"])
@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff garbage \x9f\n" * 50, b"2\n\n[{(", b"PK\x03\x04 not a zip"]
)
def test_garbage_never_ends_in_a_traceback(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        load(tmp_path / name)
    if content:
        try:
            loaded = load(tmp_path / name, on_error="skip")
        except InputError as error:
            assert "no crystals" in error.message  # noqa: PT017
        else:
            assert loaded.n_read == len(loaded.skipped)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("intact")
    names = [name for name in OUTPUTS if name != "cifs"]
    crystals = Crystals.from_structures(invented())
    return {name: write(folder / name, crystals, IDS, PROPERTIES).read_bytes() for name in names}


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_never_end_in_a_traceback(
    data: st.DataObject, intact: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(sorted(intact)))
    content = bytearray(intact[name])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damage") / name
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        loaded = load(path, on_error="skip")
    except InputError as error:
        assert "no crystals" in error.message  # noqa: PT017
    else:
        assert loaded.n_read == len(loaded) + len(loaded.skipped) > 0


def test_a_bad_file_of_a_folder_is_skipped_by_name(crystals: Crystals, tmp_path: Path) -> None:
    write(tmp_path / "a.cif", crystals[0], ["a"])
    (tmp_path / "b.cif").write_text("data_empty\n")
    write(tmp_path / "c.cif", crystals[1], ["c"])
    loaded = load(tmp_path, on_error="skip")
    assert loaded.ids == ["a", "c"]
    assert loaded.skipped == [Skipped(str(tmp_path / "b.cif"), "no block of this CIF lists atoms")]


def test_git_lfs_pointers_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "reference_MP2020correction.gz").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"
    )
    with pytest.raises(InputError, match="git lfs pull"):
        load(tmp_path / "reference_MP2020correction.gz")


def test_wrong_arguments(crystals: Crystals, tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", crystals)
    with pytest.raises(InputError, match=r"(?s)no file.*did you mean 'train.csv'"):
        load(tmp_path / "trian.csv")
    with pytest.raises(InputError, match="did you mean 'extxyz'"):
        load(path, format="exxyz")
    with pytest.raises(InputError, match="on_error"):
        load(path, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="limit=0"):
        load(path, limit=0)
    with pytest.raises(InputError, match="no crystals"):
        load([])
    with pytest.raises(InputError, match="exists"):
        write(path, crystals)
    with pytest.raises(InputError, match="known endings"):
        write(tmp_path / "a.pdf", crystals)
    with pytest.raises(InputError, match="ids: 2 values for 3 crystals"):
        write(tmp_path / "b.csv", crystals, ["x", "y"])
    assert write(path, crystals[0], overwrite=True) == path
    assert len(load(path)) == 1


def test_forced_format(crystals: Crystals, tmp_path: Path) -> None:
    text = write(tmp_path / "a.cif", crystals[0], ["a"]).read_text()
    (tmp_path / "a.cif").rename(tmp_path / "001")
    (tmp_path / "002").write_text(text)
    with pytest.raises(InputError, match="no crystals"):
        load(tmp_path)
    assert load(tmp_path, format="cif").ids == ["a", "a"]
    assert set(READERS) == {"ase", "cif", "csv", "extxyz", "json", "lmdb", "parquet", "poscar"}


def test_unfamiliar_files_of_any_content_are_not_taken_for_tables(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("a line, with commas, but no crystal\n")
    with pytest.raises(InputError, match="unknown kind of file"):
        load(tmp_path / "words")


@pytest.mark.parametrize("named", ["pos:R:3:forces:R:99999999", "pos:R:30000"])
def test_columns_that_no_line_has_are_refused_before_anybody_makes_them(tmp_path: Path, named: str) -> None:
    """ASE makes a field for each column that the comment line names: a hundred million take 18 GB."""
    path = tmp_path / "a.extxyz"
    good = 'Lattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3 pbc="T T T"'
    path.write_text(f"1\n{good.replace('pos:R:3', named)}\nNa 0 0 0\n1\n{good}\nNa 0 0 0\n")
    tracemalloc.start()
    found = load([path], on_error="skip")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.crystals.formulas == ["Na"]
    (refused,) = found.skipped
    assert "columns, and no line has more than 4" in refused.reason
    assert most < 20e6

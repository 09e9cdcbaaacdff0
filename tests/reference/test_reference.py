"""The bundled reference is what its card says, and what is derived from it can be derived again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from pymatgen.core import Composition

from anchor.arrays import content_hash, load_arrays
from anchor.crystals.distances import shortest_distances
from anchor.crystals.rdf import rdf_embedding
from anchor.errors import MissingDependencyError
from anchor.paths import BUNDLED, sha256
from anchor.reference.bonds import BondTable
from anchor.reference.reference import (
    CRYSTALS_FILE,
    HULL_FILE,
    INDEX_FILE,
    KNOWN_FILE,
    LISTED_FILE,
    MP_HULL_FILE,
    Reference,
    load_reference,
)
from anchor.reference.splits import splits_of


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


@pytest.fixture(scope="module")
def sample(reference: Reference) -> np.ndarray:
    return np.random.default_rng(0).choice(len(reference.crystals), 300, replace=False)


def test_files_and_hashes_are_those_of_the_card(reference: Reference) -> None:
    contents = {}
    for name, entry in reference.card["files"].items():
        path = BUNDLED / name
        contents[name] = content_hash(load_arrays(path))
        assert (path.stat().st_size, sha256(path)) == (entry["bytes"], entry["sha256"])
        assert contents[name] == entry["content"]
        assert path.stat().st_size < 5_000_000
    assert set(contents) == {CRYSTALS_FILE, HULL_FILE, KNOWN_FILE, INDEX_FILE, MP_HULL_FILE, LISTED_FILE}
    joined = contents[CRYSTALS_FILE] + contents[HULL_FILE] + contents[KNOWN_FILE]
    assert reference.hash == hashlib.sha256(joined.encode()).hexdigest()


def test_columns_have_one_value_per_crystal(reference: Reference) -> None:
    n = reference.card["crystals"]["kept"]
    columns = (
        "ids", "formulas", "formation_energy", "stability", "e_above_hull", "band_gap", "prototype",
        "spacegroup", "split",
    )  # fmt: skip
    assert {len(reference.crystals), *(len(getattr(reference, name)) for name in columns)} == {n}
    assert len(set(reference.ids.tolist())) == n
    card = reference.card["crystals"]
    assert card["rows_in_source"] == n + sum(r["count"] for r in card["removed"])


def test_crystals_are_clean(reference: Reference) -> None:
    crystals = reference.crystals
    assert crystals.counts.max() <= 20
    assert ((crystals.frac >= 0) & (crystals.frac < 1)).all()
    assert shortest_distances(crystals).min() >= 0.7
    assert reference.formation_energy.max() <= 5
    assert reference.stability.max() <= 2
    np.testing.assert_array_equal(reference.e_above_hull, np.clip(reference.stability, 0, None))
    assert set(np.unique(reference.spacegroup)) <= set(range(1, 231))


def test_formulas_and_prototypes_describe_the_crystals(reference: Reference, sample: np.ndarray) -> None:
    assert reference.formulas[sample].tolist() == reference.crystals[sample].formulas
    for i in sample:
        stoichiometry, *_, group = reference.prototype[i].split("_")
        elements = len(Composition(reference.formulas[i]))
        assert sum(c.isupper() for c in stoichiometry) == elements
        assert int(group) == reference.spacegroup[i]


def test_no_formula_is_in_two_splits(reference: Reference) -> None:
    np.testing.assert_array_equal(reference.split, splits_of(reference.formulas))
    groups = [set(reference.formulas[reference.split == s]) for s in ("train", "val", "test")]
    assert sum(len(g) for g in groups) == len(set(reference.formulas))
    shares = np.array([len(g) for g in groups]) / sum(len(g) for g in groups)
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.01)


def test_hull_energies(reference: Reference) -> None:
    formulas, energies = reference.hull_formulas, reference.hull_formation_energy
    assert len(formulas) == len(energies) == len(set(formulas)) == reference.card["hull"]["kept"]
    assert energies.min() > -5
    for i in np.random.default_rng(1).choice(len(formulas), 300, replace=False):
        amounts = {
            int(z): int(n)
            for z, n in zip(reference.hull_numbers[i], reference.hull_counts[i], strict=True)
            if n
        }
        assert Composition(amounts).reduced_formula == formulas[i]
        assert len(amounts) > 1
    quarantined = {
        q["formula"]: q["formation_energy_ev_per_atom"] for q in reference.card["hull"]["quarantined"]
    }
    by_formula = dict(zip(formulas, energies, strict=True))
    for formula, energy in quarantined.items():  # out, or replaced by the energy of a known crystal
        assert by_formula.get(formula, 0.0) > energy + 0.2


def test_hull_and_crystals_are_on_one_scale(reference: Reference) -> None:
    """No crystal lies below the lowest energy of its composition, and most define it."""
    lowest = dict(zip(reference.hull_formulas, reference.hull_formation_energy, strict=True))
    compounds = [i for i, f in enumerate(reference.formulas) if f in lowest]
    above = np.array([reference.formation_energy[i] - lowest[reference.formulas[i]] for i in compounds])
    assert len(compounds) > 0.98 * len(reference.crystals)
    assert above.min() > -1e-3
    assert np.median(above) < 1e-6


def test_known_formulas(reference: Reference) -> None:
    assert len(reference.known_formulas) == reference.card["known"]["mp_formulas"]
    assert reference.known("NaCl") == {"reference", "mp", "oqmd", "icsd", "cod", "mp-old"}
    assert 225 in reference.listed.space_groups("NaCl")
    assert {136, 141} <= reference.listed.space_groups("TiO2")
    assert len(reference.listed) == reference.card["listed"]["formulas"]
    assert reference.known("NaCl7Xe9") == set()
    assert reference.known("Mg2Tc") >= {"oqmd"}  # quarantined, but somebody has calculated it
    assert reference.mp_e_above_hull["NaCl"] == pytest.approx(0.0, abs=0.02)


def test_rdf_index_can_be_made_again(reference: Reference, sample: np.ndarray) -> None:
    index = reference.rdf
    assert len(index) == len(reference.crystals)
    expected = rdf_embedding(reference.crystals[sample])
    for i, z in zip(sample, expected, strict=True):
        known = index.embeddings(reference.formulas[i])
        assert np.abs(known - z).sum(axis=1).min() < 1e-12
    assert 0.02 < index.sigma_floor < 0.6
    assert 0.02 < index.struct_bandwidth < 0.6
    carbon = index.embeddings("C")
    pairs = [np.linalg.norm(a - b) for i, a in enumerate(carbon) for b in carbon[:i]]
    assert index.bandwidth("C") == pytest.approx(np.median(pairs))


def test_bond_table(reference: Reference, sample: np.ndarray) -> None:
    table = reference.bonds
    assert table.minimum[1, 8] >= 0.9
    assert table.minimum[14, 8] >= 1.5
    part = BondTable.from_crystals(reference.crystals[sample])
    assert (table.minimum[part.seen] <= part.minimum[part.seen] + 1e-12).all()
    a, b = 14, 8
    holder = reference.crystals[table.shortest_in[a, b]]
    assert BondTable.from_crystals(holder).minimum[a, b] == pytest.approx(table.minimum[a, b], abs=1e-12)


def test_the_written_data_card_is_up_to_date(reference: Reference) -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    card = reference.card
    numbers = [
        card["crystals"]["kept"],
        card["crystals"]["formulas"],
        card["hull"]["kept"],
        card["bonds"]["pairs"],
        *(r["count"] for r in card["crystals"]["removed"]),
        *(file["bytes"] for file in card["files"].values()),
    ]
    names = [q["formula"] for q in card["hull"]["quarantined"]]
    hashes = [card["hash"], *(file["sha256"] for file in card["files"].values())]
    missing = [x for x in [*hashes, *names, *(f"{n:,}" for n in numbers)] if x not in text]
    assert missing == []


def test_missing_files_are_explained(tmp_path: Path) -> None:
    broken = Reference(tmp_path)
    with pytest.raises(MissingDependencyError, match="anchor data build"):
        _ = broken.card
    with pytest.raises(MissingDependencyError, match="anchor data build"):
        _ = broken.crystals


def test_loading_again_gives_the_same_object() -> None:
    assert load_reference() is load_reference()

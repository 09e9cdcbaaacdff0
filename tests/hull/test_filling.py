"""The filling: a file of phases, hulls that take it, and a candidate that is never its own competitor."""

import json
from pathlib import Path

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.hull import Hull, HullIdentity, Phases, databases, filling, references
from anchor.hull.energies import load_energies
from anchor.reference.reference import load_reference

POTENTIAL = "mattersim-1m"


def crystal(numbers: list[int], a: float = 5.0) -> Crystals:
    frac = np.linspace(0, 1, 3 * len(numbers), endpoint=False).reshape(-1, 3)
    return Crystals(np.array([len(numbers)]), np.array(numbers), frac, np.eye(3)[None] * a)


@pytest.fixture(scope="module")
def identity() -> dict[str, str]:
    reference = load_reference()
    own = load_energies(POTENTIAL, reference.crystals)
    return {
        "potential": POTENTIAL,
        "checkpoint_hash": own.checkpoint_hash,
        "reference_hash": reference.hash,
    }


@pytest.fixture(scope="module")
def low(identity: dict[str, str]) -> filling.Filling:
    """KYSe2 far below everything, and a K-Se compound that is not on any hull."""
    k, y, se = (NUMBER[s] for s in ("K", "Y", "Se"))
    crystals = Crystals.concatenate([crystal([k, y, se, se]), crystal([k, k, k, k, se])])
    return filling.Filling(crystals, np.array([-6.5, -1.0]), np.array([166, 1]), identity)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Package and cache folder of fillings, both empty."""
    package, cache = tmp_path / "package", tmp_path / "cache"
    monkeypatch.setattr(filling, "BUNDLED", package)
    monkeypatch.setattr(filling, "cache_dir", lambda: cache)
    return package, cache


def ask(identity: dict[str, str]) -> filling.Filling | None:
    return filling.load_filling(
        POTENTIAL,
        checkpoint_hash=identity["checkpoint_hash"],
        reference_hash=identity["reference_hash"],
    )


def test_a_file_gives_back_what_was_written(
    low: filling.Filling, identity: dict[str, str], folders: tuple[Path, Path]
) -> None:
    assert ask(identity) is None
    path = filling.filling_path(POTENTIAL, folders[0])
    filling.save_filling(path, low, {"seed": 3})
    found = ask(identity)
    assert found is not None
    assert found.hash == low.hash
    assert found.crystals.formulas == low.crystals.formulas == ["KYSe2", "K4Se"]
    shift = found.crystals.frac - low.crystals.frac
    assert np.abs(shift - np.rint(shift)).max() < 1e-5
    assert found.energies.tolist() == [-6.5, -1.0]
    assert '"seed": 3' in path.with_suffix(".json").read_text()
    before = path.read_bytes()
    filling.save_filling(path, found, {})
    assert path.read_bytes() == before


def test_what_a_user_filled_joins_what_ships(
    low: filling.Filling, identity: dict[str, str], folders: tuple[Path, Path]
) -> None:
    for folder in folders:
        filling.save_filling(filling.filling_path(POTENTIAL, folder), low, {})
    found = ask(identity)
    assert found is not None
    assert len(found) == 2 * len(low)


@pytest.mark.parametrize("changed", ["checkpoint_hash", "reference_hash"])
def test_a_filling_of_another_hull_is_refused(
    changed: str, low: filling.Filling, identity: dict[str, str], folders: tuple[Path, Path]
) -> None:
    other = filling.Filling(low.crystals, low.energies, low.spacegroup, {**identity, changed: "other"})
    filling.save_filling(filling.filling_path(POTENTIAL, folders[1]), other, {})
    with pytest.raises(AnchorError, match=changed):
        ask(identity)


def test_hypothetical_phases_compete_with_every_composition_but_their_own() -> None:
    formulas, energies = ["Li", "O", "Li2O", "LiO2", "LiO"], [0.0, 0.0, -2.0, -1.5, -3.0]
    phases = Phases.from_formulas(formulas, energies)
    hull = Hull(phases, HullIdentity("x"), [4])
    plain = Hull(phases, HullIdentity("x"))
    without = Hull(Phases.from_formulas(formulas[:4], energies[:4]), HullIdentity("x"))
    asked = ["Li2O", "LiO", "Li3O2", "Li2O2", "LiO2", "Li"]
    found = hull.hull_energy(asked)
    assert found[[0, 2, 4, 5]].tolist() == plain.hull_energy(asked)[[0, 2, 4, 5]].tolist()
    assert found[[1, 3]].tolist() == without.hull_energy(asked)[[1, 3]].tolist()
    mixture = hull.decomposition("LiO")
    assert mixture is not None
    assert set(mixture.formulas) == {"Li2O", "LiO2"}
    entries = [
        PDEntry(Composition(f), e * Composition(f).num_atoms) for f, e in zip(formulas, energies, strict=True)
    ]
    expected = PhaseDiagram(entries).get_hull_energy_per_atom(Composition("Li3O2"))
    assert found[2] == pytest.approx(expected, abs=1e-9)


def test_a_filling_lowers_both_hulls_around_it_and_not_at_itself(low: filling.Filling) -> None:
    reference = load_reference()
    own = load_energies(POTENTIAL, reference.crystals)
    plain = HullIdentity("", own.checkpoint_hash)
    for scheme in ("oqmd", "mp"):
        old = databases.load_database(reference, own, scheme, plain)
        new = databases.load_database(reference, own, scheme, plain, low)
        assert len(new.own_energies) == len(old.own_energies) + 2
        around = ["K2YSe3", "KY2Se3", "KYSe3"]
        for which in ("union", "potential"):
            before, after = getattr(old, which), getattr(new, which)
            assert (after.hull_energy(around) < before.hull_energy(around) - 0.1).all()
            assert after.hull_energy(["KYSe2", "KYSe"])[0] == before.hull_energy(["KYSe2"])[0]
            assert after.hull_energy(["NaCl"]) == before.hull_energy(["NaCl"])
        mixture = new.union.decomposition("K2YSe3")
        assert mixture is not None
        assert filling.SOURCE in mixture.sources


def test_unfilled_leaves_it_out(
    low: filling.Filling, identity: dict[str, str], folders: tuple[Path, Path]
) -> None:
    references._load_hull.cache_clear()
    references._load_databases.cache_clear()
    try:
        empty = references.load_hull(POTENTIAL)
        filling.save_filling(filling.filling_path(POTENTIAL, folders[1]), low, {})
        references._load_hull.cache_clear()
        references._load_databases.cache_clear()
        filled, unfilled = references.load_hull(POTENTIAL), references.load_hull(POTENTIAL, "unfilled")
        old = references.load_hull(POTENTIAL, "oqmd")
        asked = Crystals.concatenate([crystal([19, 19, 39, 34, 34, 34])])  # K2YSe3
        score = {
            name: hull.score(asked, np.array([-25.0]), checkpoint_hash=identity["checkpoint_hash"])
            for name, hull in {"filled": filled, "unfilled": unfilled, "empty": empty}.items()
        }
        assert unfilled.identity == empty.identity != filled.identity
        assert score["unfilled"].above["union"] == score["empty"].above["union"]
        assert score["filled"].energy_above_hull > score["unfilled"].energy_above_hull + 0.1
        assert filling.SOURCE not in old.hulls["oqmd"].index.phases.sources
    finally:
        references._load_hull.cache_clear()
        references._load_databases.cache_clear()


def test_the_filling_that_ships(identity: dict[str, str]) -> None:
    path = filling.filling_path(POTENTIAL, filling.BUNDLED)
    found = filling.Filling.from_arrays(filling.load_arrays(path))
    card = json.loads(path.with_suffix(".json").read_text())
    assert found.identity == identity
    assert (found.hash, len(found)) == (card["hash"], card["phases"])
    formulas = found.crystals.formulas
    assert len(set(formulas)) == len(found)
    reference = load_reference()
    assert not set(formulas) & {*reference.hull_formulas, *reference.mp_hull_energy}
    assert not {row["formula"] for row in card["refused"]} & set(formulas)
    assert card["made"] == sum(card["verdicts"].values()) <= card["wanted"]
    hull = references.load_hull(POTENTIAL)
    searchable = {NUMBER[s] for s in (*hull.searchable_elements, "Yb")}  # it was when these were made
    assert searchable >= set(found.crystals.numbers.tolist())
    assert {"SeF6", "Yb3P2"} <= set(formulas)  # real, and in neither list
    mixture = hull.decompositions("KYbP")["mp"]
    assert filling.SOURCE in mixture.sources


def test_listed_phases_that_ship_take_down_what_lived_in_a_hole() -> None:
    """LiTmF4 against LiF and TmF3: with TmF3 where the potential has it, the hull there is much lower."""
    filled, unfilled = (references.load_hull("mattersim-1m", kind) for kind in ("union", "unfilled"))
    for name in ("oqmd", "mp"):
        before, after = (h.databases[name].union.hull_energy(["LiTmF4"])[0] for h in (unfilled, filled))
        assert after < before - 0.15

"""LeMat's checks against brute force: every guess listed, NumPy's correlation, pymatgen's distances."""

import builtins
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymatgen.analysis.bond_valence import BVAnalyzer, calculate_bv_sum
from pymatgen.analysis.local_env import MinimumDistanceNN
from pymatgen.core import Element, Lattice, Structure

from anchor.chemistry.charge import oxidation_states
from anchor.chemistry.elements import NUMBERS, VOCABULARY
from anchor.crystals.crystals import Crystals
from anchor.errors import MissingDependencyError
from anchor.executors import Processes
from anchor.gates import lemat
from anchor.gates.lemat import LematGate
from anchor.random import generator
from anchor.reference.reference import load_reference

metallicity_score = pytest.importorskip("smact.metallicity").metallicity_score


@pytest.fixture(scope="module")
def gate():
    with Processes(workers=1) as pool:
        yield LematGate(pool=pool)


def rock_salt(a: float, cation: str = "Na", anion: str = "Cl") -> Structure:
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(a), [cation, anion], [[0, 0, 0], [0.5, 0.5, 0.5]])


def guesses(atoms: dict[str, int], states: dict[str, tuple[int, ...]]) -> list[dict[str, float]]:
    """All balanced assignments, listed: mean state by element, an element's states at most 1 apart."""
    sums = []
    for symbol, n in atoms.items():
        picks = combinations_with_replacement(states[symbol], n)
        sums.append({sum(pick) for pick in picks if max(pick) - min(pick) <= 1} - {0})
    found = [dict(zip(atoms, charges, strict=True)) for charges in product(*sums) if sum(charges) == 0]
    return [{symbol: charge / atoms[symbol] for symbol, charge in guess.items()} for guess in found]


compositions = st.dictionaries(
    st.sampled_from([*VOCABULARY, "Xe", "Ar"]), st.integers(1, 4), min_size=1, max_size=3
)


@settings(max_examples=150, deadline=None)
@given(atoms=compositions)
def test_guesses_against_listing_them_all(atoms: dict[str, int]) -> None:
    states = {symbol: oxidation_states(symbol) for symbol in atoms}
    assert lemat.has_balanced_guess(atoms, states) == bool(guesses(atoms, states))


@settings(max_examples=150, deadline=None)
@given(atoms=compositions)
def test_covariance_against_numpys_correlation(atoms: dict[str, int]) -> None:
    found = guesses(atoms, {symbol: Element(symbol).oxidation_states for symbol in atoms})
    with np.errstate(all="ignore"):
        electronegativity = [Element(symbol).X for symbol in atoms]
        correlations = [np.corrcoef(list(guess.values()), electronegativity)[0, 1] for guess in found]
    passes = any(correlation < -1e-6 for correlation in correlations)
    assert (lemat.lowest_covariance(atoms) < lemat.NEGATIVE_BELOW) == passes


@pytest.mark.parametrize(
    ("atoms", "guess", "all_states"),
    [
        ({"Na": 1, "Cl": 1}, True, True),
        ({"Fe": 3, "O": 4}, True, True),  # Fe 2+, 3+, 3+
        ({"Na": 1, "Cl": 2}, False, False),
        ({"U": 3, "Si": 1}, False, False),
        ({"Mg": 1, "Cl": 1}, False, True),  # Mg 1+ is on pymatgen's full list, not on ICSD's
        ({"Na": 1, "Tl": 1}, False, False),  # only Na 1-, Tl 1+: against electronegativity
    ],
)
def test_oxidation_steps_by_hand(atoms: dict[str, int], guess: bool, all_states: bool) -> None:
    assert lemat.has_balanced_guess(atoms, {s: oxidation_states(s) for s in atoms}) is guess
    assert (lemat.lowest_covariance(atoms) < 0) is all_states


def published(structure: Structure) -> bool:
    """The benchmark's charge decision in its own order, every step in full."""
    reduced = {str(e): int(n) for e, n in structure.composition.reduced_composition.get_el_amt_dict().items()}
    if metallicity_score(structure.composition) > 0.7:
        return True
    neighbours = [MinimumDistanceNN(tol=0.1, cutoff=10).get_nn(structure, i) for i in range(len(structure))]
    try:
        if all(abs(calculate_bv_sum(structure[i], nn)) < 1e-15 for i, nn in enumerate(neighbours)):
            return True
    except KeyError:  # an element without parameters
        pass
    try:
        return abs(sum(BVAnalyzer().get_valences(structure))) <= 0.1
    except ValueError:
        pass
    if guesses(reduced, {symbol: oxidation_states(symbol) for symbol in reduced}):
        return True
    found = guesses(reduced, {symbol: Element(symbol).oxidation_states for symbol in reduced})
    electronegativity = [Element(symbol).X for symbol in reduced]
    return any(np.corrcoef(list(guess.values()), electronegativity)[0, 1] < 0 for guess in found)


def test_order_of_steps_does_not_matter(gate: LematGate) -> None:
    """Reference crystals, and the same with elements shuffled so that many are not neutral."""
    reference, rng = load_reference(), generator(1, "test", "lemat")
    small = np.flatnonzero(reference.crystals.counts <= 6)
    chosen = reference.crystals[rng.choice(small, 30, replace=False)]
    swap = {z: int(rng.choice(NUMBERS)) for z in np.unique(chosen.numbers).tolist()}
    swapped = Crystals(chosen.counts, [swap[z] for z in chosen.numbers.tolist()], chosen.frac, chosen.lattice)
    both = Crystals.concatenate([chosen, swapped])
    expected = [published(structure) for structure in both.to_structures()]
    assert [check.charge_ok for check in gate.check(both)] == expected
    assert 0 < sum(expected) < len(expected)


def test_bv_analyzer_never_succeeds_where_it_is_not_asked() -> None:
    """The shortcut is exact: on reference crystals, valences are found only where they may be."""
    reference = load_reference()
    small = np.flatnonzero(reference.crystals.counts <= 6)
    chosen = reference.crystals[generator(2, "test", "lemat").choice(small, 40, replace=False)]
    asked = found = 0
    for crystal, structure in zip(chosen, chosen.to_structures(), strict=True):
        atoms = {str(e): int(n) for e, n in structure.composition.items()}
        may = lemat.bv_analyzer_may_succeed(atoms)
        neutral = lemat.bv_analyzer_neutral(crystal)
        asked, found = asked + may, found + neutral
        assert may or not neutral
    assert 0 < found <= asked < len(chosen)


def test_metals_pass_by_score_or_by_bond_valences(gate: LematGate) -> None:
    alloy = Structure(Lattice.cubic(3.0), ["Fe", "Al"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    silicon = Structure.from_spacegroup("Fd-3m", Lattice.cubic(5.43), ["Si"], [[0, 0, 0]])
    checks = gate.check(Crystals.from_structures([alloy, silicon, rock_salt(5.64)]))
    assert [check.charge_by for check in checks] == ["metallicity", "bond valence sums", "oxidation guess"]
    assert all(check.valid and check.reasons == () for check in checks)


def test_states_can_be_given(gate: LematGate) -> None:
    crystal = Crystals.from_structures(rock_salt(5.2, "Mg", "Cl"))
    own = LematGate(pool=gate.pool, states={"Mg": [1, 2]})
    assert gate.check(crystal)[0].charge_by == "all oxidation states"
    assert own.check(crystal)[0].charge_by == "oxidation guess"


@pytest.mark.parametrize("self_images", [False, True])
def test_distances_against_pymatgen(self_images: bool) -> None:
    rng, structures = np.random.default_rng(2), []
    radius = {symbol: Element(symbol).atomic_radius for symbol in ("Na", "Cl", "O")}
    for _ in range(40):
        cell = Lattice.from_parameters(*rng.uniform(2.0, 9, 3), *rng.uniform(60, 120, 3))
        structures.append(Structure(cell, rng.choice(["Na", "Cl", "O"], 3), rng.random((3, 3))))
    faults = lemat.distance_faults(Crystals.from_structures(structures), self_images=self_images)
    for structure, fault in zip(structures, faults, strict=True):
        symbols = [site.specie.symbol for site in structure]
        least = np.array([[0.5 * (0.7 + radius[a] + radius[b]) for b in symbols] for a in symbols])
        if self_images:
            first, second, _, distance = structure.get_neighbor_list(4.0)
            expected = bool((distance < least[first, second]).any())
        else:
            expected = bool((structure.distance_matrix < least)[np.triu_indices(3, 1)].any())
        assert bool(fault) == expected
    assert 0 < sum(map(bool, faults)) < len(faults)


def test_own_images_count_only_when_not_as_published() -> None:
    thin = Crystals.from_structures(Structure(Lattice.orthorhombic(1.5, 6, 6), ["Na"], [[0, 0, 0]]))
    assert lemat.distance_faults(thin, self_images=False) == [""]
    assert lemat.distance_faults(thin, self_images=True) == ["Na–Na 1.500 Å, at least 2.150 Å"]


def test_cells_against_pymatgen_and_by_hand() -> None:
    structures = [
        rock_salt(5.64),
        rock_salt(1.9),  # 8 atoms in 6.9 Å³: too dense in both senses
        Structure(Lattice.orthorhombic(0.9, 9, 9), ["Na"], [[0, 0, 0]]),
        Structure(Lattice.orthorhombic(101, 4, 4), ["Na"], [[0, 0, 0]]),
        Structure(Lattice.cubic(99), ["H"], [[0, 0, 0]]),  # 1.7e-6 g/cm³
        Structure(Lattice([[4, 0, 0], [8, 0, 0], [0, 0, 4]]), ["Na"], [[0, 0, 0]]),  # flat
    ]
    faults = lemat.cell_faults(Crystals.from_structures(structures))
    assert faults[0] == ""
    assert faults[1] == f"{structures[1].density:.3g} g/cm³, {8 / 1.9**3:.3g} atoms/Å³"
    assert faults[2] == "lengths 0.9, 9, 9 Å"
    assert faults[3] == "lengths 101, 4, 4 Å"
    assert faults[4].startswith(f"{structures[4].density:.3g} g/cm³, {1 / 99**3:.3g} atoms/Å³")
    assert "volume 0 Å³" in faults[5]
    assert "angles" in faults[5]


def test_invalid_crystals_say_why_and_never_stop_the_batch(gate: LematGate) -> None:
    nan = Crystals.from_structures(rock_salt(5.64)).replace(frac=np.full((8, 3), np.nan))
    flat = Crystals.from_structures(rock_salt(5.64)).replace(lattice=np.zeros((1, 3, 3)))
    unbalanced = Structure(Lattice.cubic(4.5), ["Na", "Cl", "Cl"], [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]])
    batch = Crystals.concatenate(
        [nan, flat, Crystals.from_structures([unbalanced, rock_salt(2.2), rock_salt(5.64)])]
    )
    checks = gate.check(batch)
    assert gate(batch).tolist() == [False, False, False, False, True]
    assert not checks[0].plausibility_ok
    assert not checks[1].distance_ok
    assert checks[2].reasons == ("charge: no step finds it neutral",)
    assert checks[3].reasons[0] == "distance: Na–Cl 1.100 Å, at least 1.750 Å"
    assert gate(Crystals.empty()).shape == (0,)


def test_a_killed_step_is_recorded() -> None:
    """The symmetry of 216 atoms takes far longer than a millisecond on any machine."""
    large = Crystals.from_structures(rock_salt(5.64) * (3, 3, 3))
    with Processes(workers=1, seconds=0.001) as pool:
        (check,) = LematGate(pool=pool).check(large)
    assert check.reasons == ("plausibility: no space group: killed after 0.001 s",)
    assert not check.valid


def test_missing_smact_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_smact(name, *args, **kwargs):
        if name.startswith("smact"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    lemat.metallicity.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_smact)
    with pytest.raises(MissingDependencyError, match="pip install smact"):
        LematGate()

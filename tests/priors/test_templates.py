"""The template prior: votes, roles, volumes, repeatability, and what it does when it knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.chemistry.composition import parse_formula
from anchor.errors import InputError
from anchor.priors.fitted import Fitted, load_fitted
from anchor.priors.overlaps import room
from anchor.priors.prototypes import role_permutations
from anchor.priors.request import Request
from anchor.priors.templates import TemplatePrior
from anchor.priors.units import of_split
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def prior() -> TemplatePrior:
    return TemplatePrior(temperature=0.0)


def request(formula: str, units: int | None, **changes) -> Request:
    values = {"draw": 0, "seed": 0, "stream": ("test",)} | changes
    return Request(parse_formula(formula), units, **values)


def test_a_known_crystal_comes_back():
    reference = load_reference()
    everything = TemplatePrior(split="all", temperature=0.0)
    matcher = StructureMatcher(stol=0.5, angle_tol=10, ltol=0.3)
    hits = []
    on_hull = np.flatnonzero((reference.e_above_hull < 1e-6) & (reference.split == "test"))[::40]
    for i in on_hull:
        true = reference.crystals[int(i)]
        numbers, counts = np.unique(true.numbers, return_counts=True)
        from anchor.chemistry.elements import SYMBOLS

        made = everything.sample({SYMBOLS[z]: int(c) for z, c in zip(numbers, counts, strict=True)}, 3)
        hits.append(any(matcher.fit(true.to_structures()[0], s) for s in made.to_structures()))
    assert np.mean(hits) > 0.95


def test_probabilities_against_brute_force(prior):
    """Votes of every training crystal, summed over prototype and equivalent assignments, one by one."""
    reference, fitted = load_reference(), load_fitted()
    ratio, query = (1, 1, 3), np.array([56, 22, 8])
    shelf = prior.shelves[ratio]
    swaps = [tuple(p) for p in role_permutations(ratio).tolist()]
    votes: dict[tuple[int, frozenset], float] = {}
    for i in shelf.crystal[shelf.units == 1].tolist():
        label = int(fitted.prototypes.label[i])
        alike = [swaps[a] for a in np.flatnonzero(fitted.prototypes.symmetries[label][: len(swaps)])]
        for swap in swaps:
            assignment = frozenset(tuple(swap[a[r]] for r in range(3)) for a in alike)
            weights = fitted.similarity.role_weights(ratio)
            gap = sum(
                weights[r] * fitted.similarity.distance[query[swap[r]], fitted.prototypes.roles[i, r]]
                for r in range(3)
            )
            gap += fitted.similarity.instability * min(reference.e_above_hull[i], 0.5)
            votes[label, assignment] = votes.get((label, assignment), 0.0) + np.exp(-gap)
    expected = np.sort(np.array(list(votes.values())) / sum(votes.values()))[::-1]
    choices = prior.choices(request("BaTiO3", 1), 5)
    np.testing.assert_allclose([c.probability for c in choices], expected[:5], rtol=1e-3)


def test_templates_are_of_the_split_and_of_the_cell(prior):
    reference = load_reference()
    train = set(of_split(reference, "train").tolist())
    for choice in prior.choices(request("Ba2Ti2O6", 2), 50):
        assert choice.crystal in train
        assert reference.crystals.counts[choice.crystal] == 10
        assert set(choice.replace.values()) == {56, 22, 8}


def test_perovskite_roles_and_volume(prior):
    """BaTiO3: Ba where alkaline earths sit, Ti in the octahedra, and about the right volume (64 Å3)."""
    crystal = prior.sample([{"O": 3, "Ba": 1, "Ti": 1}])
    structure = crystal.to_structures()[0]
    titanium = next(site for site in structure if site.specie.symbol == "Ti")
    neighbours = sorted(structure.get_neighbors(titanium, 3), key=lambda n: n.nn_distance)[:6]
    assert {n.specie.symbol for n in neighbours} == {"O"}
    assert crystal.volume[0] == pytest.approx(64.5, rel=0.06)


def test_equal_cells_have_one_answer(prior):
    one = prior.sample([{"Ba": 1, "Ti": 1, "O": 3}], 6)
    other = prior.sample([{"O": 3, "Ti": 1, "Ba": 1}], 6)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.lattice, b.lattice)
        order_a, order_b = (np.lexsort((*c.frac.T, c.numbers)) for c in (a, b))
        np.testing.assert_array_equal(a.numbers[order_a], b.numbers[order_b])
        np.testing.assert_allclose(a.frac[order_a], b.frac[order_b])


def test_draws_differ_and_repeat_only_when_exhausted(prior):
    crystals = prior.sample("BaTiO3", 12)
    keys = {(c.n_atoms, c.numbers.tobytes(), c.frac.tobytes(), c.lattice.tobytes()) for c in crystals}
    assert len(keys) == 12


def test_seeds():
    warm = TemplatePrior(temperature=1.0, rattle=0.02)
    cells = [parse_formula("CaTiO3"), parse_formula("KCl")]
    first, again = warm.sample(cells, 4, seed=3), warm.sample(cells, 4, seed=3)
    np.testing.assert_array_equal(first.frac, again.frac)
    np.testing.assert_array_equal(first[4:].frac, warm.sample([cells[0], cells[1]], 4, seed=3)[4:].frac)
    assert not np.array_equal(first.frac[:5], warm.sample(cells, 4, seed=4).frac[:5])
    assert warm.hash != TemplatePrior(temperature=1.0).hash


def test_warm_draws_follow_the_votes():
    warm = TemplatePrior(temperature=1.0)
    cold = TemplatePrior(temperature=0.0).choices(request("Li2Cl2", 2), 200)
    best = max(cold, key=lambda c: c.probability)
    draws = [
        warm.choices(request("Li2Cl2", 2, stream=("test", i)), 1)[0].probability == best.probability
        for i in range(300)
    ]
    error = 4 * np.sqrt(best.probability * (1 - best.probability) / 300)
    assert np.mean(draws) == pytest.approx(best.probability, abs=error)


def test_rattle_has_its_size():
    still, moved = (TemplatePrior(temperature=0.0, rattle=r).sample("LaAlO3", 8) for r in (0.0, 0.03))
    shift = moved.cart - still.cart
    assert np.std(shift) == pytest.approx(0.03, rel=0.25)


def test_supercells_where_nothing_fits(prior):
    units = prior.shelves[(1, 1)].units
    missing = next(u for u in range(10, 1, -1) if u not in units)
    crystal = prior.sample([{"Cs": missing, "Cl": missing}])
    primitive = crystal.to_structures()[0].get_primitive_structure()
    assert len(primitive) < 2 * missing, "it is a smaller crystal repeated"


def test_supercells_compete_when_asked():
    counts = load_reference().crystals.counts
    for supercells, sizes in (("fallback", {10}), ("compete", {5, 10})):
        prior = TemplatePrior(temperature=0.0, supercells=supercells)
        assert {int(counts[c.crystal]) for c in prior.choices(request("Ba2Ti2O6", 2), 400)} == sizes


@pytest.mark.parametrize(
    "cell", [{"Li": 3, "Fe": 5, "O": 7}, {"K": 1, "Mn": 7, "S": 11}, {"Zr": 3, "Cu": 2, "P": 7, "O": 8}]
)
def test_unseen_stoichiometries_get_crystals_with_room(prior, cell):
    crystals = prior.sample([cell], 3)  # `sample` checks the atoms
    assert room(crystals, prior._shortest).min() > 0.8
    again = prior.sample([cell], 3)
    np.testing.assert_array_equal(crystals.frac, again.frac)


def test_free_formulas_of_unseen_stoichiometry(prior):
    assert prior.sample("Li7Fe11", 2).counts.tolist() == [18, 18]


def test_file_round_trip():
    fitted = load_fitted()
    again = Fitted.from_arrays(fitted.arrays())
    assert TemplatePrior(fitted=again).hash == TemplatePrior().hash


def test_bad_settings():
    with pytest.raises(InputError, match="must not be negative"):
        TemplatePrior(temperature=-1)

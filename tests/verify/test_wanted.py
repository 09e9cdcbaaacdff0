"""Which compounds could break a find: against linear programmes, and against the hull with them on it."""

import numpy as np
import pytest
from scipy.optimize import linprog

from anchor.chemistry.elements import NUMBER
from anchor.hull.hull import Hull, HullIdentity
from anchor.hull.phases import Phases, composition_matrix
from anchor.verify.wanted import SHARES, UNLIKELY, corners, estimated, known_stoichiometries, wanted

SYSTEMS = [("Li", "O"), ("Li", "O", "Ti"), ("Li", "O", "Na", "Ti")]


def random_hull(symbols: tuple[str, ...], seed: int) -> tuple[Hull, list[int], np.ndarray, float]:
    """Phases at random, and a compound a little below their hull."""
    rng = np.random.default_rng(seed)
    system = sorted(NUMBER[s] for s in symbols)
    k = len(system)
    counts = [*np.eye(k, dtype=int), *rng.integers(0, 5, (12, k))]
    counts = [c for c in counts if c.any()]
    amounts = [{z: float(n) for z, n in zip(system, c, strict=True) if n} for c in counts]
    energies = [0.0] * k + (-rng.uniform(0, 1, len(counts) - k)).tolist()
    hull = Hull(Phases.from_amounts(amounts, energies), HullIdentity("random"))
    target = rng.integers(1, 5, k) / 1.0
    target /= target.sum()
    whole = np.zeros((1, 119))
    whole[0, system] = target
    return hull, system, target, float(hull.hull_energy(whole)[0]) - 0.05


@pytest.mark.parametrize("symbols", SYSTEMS)
@pytest.mark.parametrize("seed", range(4))
def test_the_energy_that_breaks_a_find(symbols, seed) -> None:
    hull, system, target, energy = random_hull(symbols, seed)
    region = corners(hull, system, target, energy)
    phases, energies, _ = hull.index.gather(tuple(system))
    others = np.abs(phases - target[:, None]).max(axis=0) > 1e-6
    rng = np.random.default_rng(seed)
    for _ in range(5):
        competitor = rng.dirichlet(np.ones(len(system)))
        needed = (region @ competitor).min()
        exact = linprog(  # the lowest μ·c of all potentials at which the find is stable
            competitor,
            A_ub=phases[:, others].T,
            b_ub=energies[others],
            A_eq=target[None],
            b_eq=[energy],
            bounds=(None, None),
        )
        assert needed == pytest.approx(exact.fun, abs=1e-7)
        for shift, breaks in ((-1e-4, True), (1e-4, False)):
            amounts = dict(zip(system, competitor.tolist(), strict=True))
            joined = hull.with_phases(Phases.from_amounts([amounts], [needed + shift]))
            whole = np.zeros((1, 119))
            whole[0, system] = target
            assert (joined.hull_energy(whole)[0] < energy) == breaks


def test_a_find_above_the_hull_has_no_region() -> None:
    hull, system, target, energy = random_hull(("Li", "O", "Ti"), 0)
    assert len(corners(hull, system, target, energy + 0.1)) == 0


def test_the_hole_beside_a_find_is_wanted_first() -> None:
    """Where nobody knows Li2O it may break a find; what is there is not asked for."""
    hull = Hull(Phases.from_formulas(["Li", "O2", "LiO"], [0.0, 0.0, -0.4]), HullIdentity("small"))
    find = composition_matrix(["LiO2"])[0] / 3
    found = wanted(find, {"oqmd": -0.35}, {"oqmd": hull}, 5)
    names = {one.formula for one in found}
    assert "Li2O" in names
    assert names.isdisjoint({"LiO", "Li2O2", "LiO2"})
    assert all(UNLIKELY <= one.chance <= 1 for one in found)
    deep = wanted(find, {"oqmd": -2.9}, {"oqmd": hull}, 5)
    assert not deep  # nothing is low enough to break that


def test_an_element_needs_no_competitor() -> None:
    hull = Hull(Phases.from_formulas(["Li"], [0.0]), HullIdentity("small"))
    assert wanted(composition_matrix(["Li"])[0], {"oqmd": -0.1}, {"oqmd": hull}, 5) == []


def test_common_stoichiometries_are_shares() -> None:
    for k, share in SHARES.items():
        found = known_stoichiometries(k, share)
        assert share <= sum(found.values()) <= 1
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert all(tuple(sorted(one)) == one and len(one) == k for one in found)
    assert {(1, 1), (1, 2), (1, 3), (2, 3)} <= set(known_stoichiometries(2, SHARES[2]))


def test_elements_without_an_estimate() -> None:
    assert estimated([3, 8])
    assert not estimated([2, 8])

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from math import factorial, gcd

import numpy as np
import pytest
from scipy import stats

from anchor.chemistry.bounds import stoichiometries, why_outside
from anchor.chemistry.charge import is_neutral, neutral_assignment
from anchor.chemistry.composition import Composition, Compositions
from anchor.chemistry.counting import count_neutral
from anchor.chemistry.elements import NUMBERS
from anchor.chemistry.spaces import sample_neutral, sample_random
from anchor.errors import InputError
from anchor.random import generator

SMALL = ("Na", "Cl", "O", "N")  # four elements: the whole space can be listed
UNEVEN = ("H", "Si", "O", "B")  # several units of HSi are neutral where one is not


def listed(k: int) -> list[Composition]:
    """Every action of SMALL with k elements."""
    return [
        Composition(symbols, tuple(rho))
        for symbols in combinations(SMALL, k)
        for rho in stoichiometries(k).tolist()
    ]


def key(composition: Composition) -> tuple:
    """The action without the order of its elements."""
    return tuple(sorted(zip(composition.elements, composition.counts, strict=True)))


def assert_uniform(batch: Compositions, population: list[Composition]) -> None:
    drawn = Counter(map(key, batch))
    assert drawn.keys() <= set(map(key, population))
    assert stats.chisquare([drawn[key(c)] for c in population]).pvalue > 1e-4


def test_flat_random_draws_every_action_alike() -> None:
    batch = sample_random(60_000, generator(0, "flat"), "flat", elements=SMALL)
    assert_uniform(batch, [c for k in (2, 3, 4) for c in listed(k)])


def test_flat_neutral_draws_every_neutral_action_alike() -> None:
    population = [c for k in (2, 3, 4) for c in listed(k)]
    neutral = Compositions.from_list(population)
    batch = sample_neutral(30_000, generator(0, "neutral"), "flat", elements=SMALL)
    assert is_neutral(batch).all()
    assert_uniform(batch, [c for c, ok in zip(population, is_neutral(neutral), strict=True) if ok])


def test_neutral_by_k_draws_k_first() -> None:
    batch = sample_neutral(30_000, generator(0, "by-k"), "by-k", elements=SMALL)
    assert is_neutral(batch).all()
    assert stats.chisquare(np.bincount(batch.k)[2:]).pvalue > 1e-4
    for k in (2, 3, 4):
        population = Compositions.from_list(listed(k))
        assert_uniform(batch[batch.k == k], list(population[is_neutral(population)]))


def test_neutral_formulas_are_the_papers_enumeration_and_k_comes_first() -> None:
    batch = sample_neutral(30_000, generator(0, "formulas"), elements=UNEVEN)
    assert stats.chisquare(np.bincount(batch.k)[2:]).pvalue > 1e-4
    for k, size in count_neutral(UNEVEN).items():
        formulas: dict[str, Composition] = {}  # one formula unit of each, if that unit is neutral
        for symbols in combinations(UNEVEN, k):
            for rho in stoichiometries(k).tolist():
                unit = Composition(symbols, tuple(n // gcd(*rho) for n in rho))
                if neutral_assignment(unit.elements, unit.counts) is not None:
                    formulas[unit.formula] = unit
        assert len(formulas) == size.neutral_formula_units < size.neutral_formulas
        assert_uniform(batch[batch.k == k], list(formulas.values()))


def test_hierarchical_draws_each_step_alike() -> None:
    batch = sample_random(120_000, generator(0, "hierarchical"))
    assert stats.chisquare(np.bincount(batch.k)[2:]).pvalue > 1e-4
    for k in (2, 3, 4):
        part = batch[batch.k == k]
        assert stats.chisquare(np.bincount(part.n_atoms, minlength=21)[k:]).pvalue > 1e-4
        for column in range(k):
            drawn = np.bincount(part.padded(k)[0][:, column], minlength=119)[NUMBERS]
            assert stats.chisquare(drawn).pvalue > 1e-5


@pytest.mark.parametrize(("k", "n_atoms"), [(2, 20), (3, 20), (4, 9)])
def test_hierarchical_stoichiometry_is_the_truncated_multinomial(k: int, n_atoms: int) -> None:
    batch = sample_random(300_000, generator(1, "rho"))
    _, rows = batch[(batch.k == k) & (batch.n_atoms == n_atoms)].padded(k)
    drawn = Counter(map(tuple, rows.tolist()))
    outcomes = [tuple(rho) for rho in stoichiometries(k).tolist() if sum(rho) == n_atoms]
    weights = np.array([1 / np.prod([factorial(n - 1) for n in rho]) for rho in outcomes])
    expected = weights / weights.sum() * len(rows)
    observed = np.array([drawn[rho] for rho in outcomes])
    assert observed.sum() == len(rows)
    common = expected >= 5
    tail = [expected[~common].sum()] if expected[~common].sum() > 0 else []
    rest = [observed[~common].sum()] if tail else []
    assert stats.chisquare([*observed[common], *rest], [*expected[common], *tail]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("draw", "measure"),
    [
        (sample_random, "hierarchical"),
        (sample_random, "flat"),
        (sample_neutral, "formulas"),
        (sample_neutral, "by-k"),
        (sample_neutral, "flat"),
    ],
)
def test_draws_are_actions_and_repeat_with_the_seed(draw: Callable[..., Compositions], measure: str) -> None:
    batch = draw(300, generator(5, "draw"), measure)
    again = draw(300, generator(5, "draw"), measure)
    other = draw(300, generator(6, "draw"), measure)
    assert batch.cells == again.cells != other.cells
    assert all(why_outside(composition) is None for composition in batch)
    assert len(draw(0, generator(5, "draw"), measure)) == 0


def test_share_of_neutral_random_actions() -> None:
    share = is_neutral(sample_random(50_000, generator(0, "share"))).mean()
    assert 0.12 < share < 0.15  # the issue: about 13 %


def test_bad_requests_are_refused() -> None:
    rng = generator(0)
    with pytest.raises(InputError, match="unknown measure 'by_k'") as error:
        sample_neutral(1, rng, "by_k")  # type: ignore[arg-type]
    assert error.value.hint == "did you mean 'by-k'?"
    with pytest.raises(InputError, match="too few"):
        sample_random(1, rng, elements=("Na", "Cl"))
    with pytest.raises(InputError, match="'Xe' is not in the vocabulary"):
        sample_random(1, rng, elements=("Na", "Cl", "Xe", "O", "H"))
    with pytest.raises(InputError, match="is charge-neutral"):
        sample_neutral(5, rng, elements=("Na", "K", "Ca", "Mg", "Al"))

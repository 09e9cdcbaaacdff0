"""The merged prior: exactly the atoms asked for, on the structure of a simpler formula."""

import numpy as np
import pytest

from anchor.chemistry.composition import parse_formula
from anchor.crystals.symmetry import space_group
from anchor.errors import AnchorError
from anchor.priors import load_prior
from anchor.priors.merged import MergedPrior
from anchor.priors.merging import merges, partitions
from anchor.priors.templates import TemplatePrior


@pytest.fixture(scope="module")
def prior() -> MergedPrior:
    made = load_prior("merged", fallback="none")
    assert isinstance(made, MergedPrior)
    return made


def test_partitions() -> None:
    assert list(partitions([1, 2])) == []
    assert set(partitions([1, 2, 3])) == {((1,), (2, 3)), ((2,), (1, 3)), ((1, 2), (3,))}
    four = list(partitions([1, 2, 3, 4]))
    assert len(four) == len(set(four)) == 6 + 3 + 4
    assert [len(blocks) for blocks in four] == [3] * 6 + [2] * 7
    assert min(len(blocks) for blocks in partitions([1, 2, 3, 4, 5])) == 3


@pytest.mark.parametrize("formula", ["Cs2AgBiBr6", "Li2FeMnO4", "NaCaZnF7", "KRbCaMgCl6", "LiCoPSe"])
@pytest.mark.parametrize("units", [None, 1])
def test_exactly_the_atoms_asked_for(prior: MergedPrior, formula: str, units: int | None) -> None:
    made = prior.realise(formula, 4, units=units)
    asked = parse_formula(formula)
    assert len(made.crystals) >= 1
    assert set(made.made_by) == {"merged"}
    for crystal in made.crystals:
        times = crystal.n_atoms // asked.n_atoms if units is None else units
        assert crystal.n_atoms <= prior.max_atoms
        np.testing.assert_array_equal(np.sort(crystal.numbers), np.sort(np.tile(asked.numbers, times)))


def test_a_double_perovskite_comes_from_perovskites(prior: MergedPrior) -> None:
    best = merges(prior.templates, parse_formula("Cs2AgBiBr6"), None, 1)[0]
    assert sorted(map(len, best.blocks)) == [1, 1, 2]
    assert {z for block in best.blocks if len(block) == 2 for z in block} == {47, 83}
    groups = [space_group(crystal)[1] for crystal in prior.realise("Cs2AgBiBr6", 3).crystals]
    assert 225 in groups  # elpasolite, as it is


def test_draws_differ_and_do_not_depend_on_seed_or_company(prior: MergedPrior) -> None:
    one = prior.realise(["Cs2AgBiBr6", "LiCoPSe"], 3, seed=1)
    other = prior.realise(["Cs2AgBiBr6"], 3, seed=2)
    np.testing.assert_array_equal(one.of([0], 3).crystals.frac, other.crystals.frac)
    assert len({(c.numbers.tobytes(), c.frac.tobytes()) for c in other.crystals}) == 3


def test_where_nothing_can_be_merged(prior: MergedPrior) -> None:
    assert "knows 0 crystals of NaCl" in prior.realise("NaCl").missing[0]
    with pytest.raises(AnchorError, match="missing"):
        prior.sample("NaCl")
    assert load_prior("merged").realise("NaCl").made_by == ["templates"]
    assert load_prior("merged-all").realise("NaCl").made_by == ["templates-all"]


def test_a_hash_of_its_own(prior: MergedPrior) -> None:
    assert len({prior.hash, load_prior("merged").hash, load_prior("merged-all").hash}) == 3
    assert prior.hash != TemplatePrior().hash

"""Pairs: the same numbers for every prior, whoever else cannot be asked for."""

from collections.abc import Sequence

import numpy as np
from relax_surfaces import Morse

from anchor.chemistry.composition import Composition, parse_formula
from anchor.crystals.crystals import Crystals
from anchor.evaluate.answer import Lowest, realise_block
from anchor.outcomes.table import Outcomes
from anchor.priors import Prior, Request

CELLS = [parse_formula(text) for text in ("NaCl", "Mg2O2", "UF4", "LiFePO4", "ZnS")]


class Scatter(Prior):
    """Random positions from the request's own stream; refuses or fails where told to."""

    name, max_atoms, hash = "scatter", 20, "0"

    def __init__(self, *, without: int = 0, fails_on: int = 0) -> None:
        self.elements = frozenset(range(1, 95)) - {without}
        self.fails_on = fails_on

    def draw(self, requests: Sequence[Request]) -> Crystals:
        if any(self.fails_on in request.composition.numbers for request in requests):
            raise ValueError("no such template")
        return Crystals.concatenate(self._one(request) for request in requests)

    def _one(self, request: Request) -> Crystals:
        numbers, rng = request.composition.numbers, request.rng(request.draw)
        return Crystals(
            np.array([len(numbers)]),
            numbers,
            rng.random((len(numbers), 3)),
            5 * np.eye(3)[None] + rng.random(),
        )


def block(prior: Prior, cells: Sequence[Composition | None] = CELLS, query: str = "cell") -> Outcomes:
    return realise_block(prior, cells, seed=3, block=2, query=query)  # type: ignore[arg-type]


def test_unknown_elements_do_not_shift_the_others() -> None:
    everyone, without_uranium = block(Scatter()), block(Scatter(without=92))
    assert without_uranium.texts("reason") == ["", "", "the prior scatter does not know U", "", ""]
    assert without_uranium.at.tolist() == [0, 1, 3, 4]
    np.testing.assert_array_equal(everyone.crystals[[0, 1, 3, 4]].frac, without_uranium.crystals.frac)


def test_one_that_fails_does_not_void_its_block() -> None:
    everyone, broken = block(Scatter()), block(Scatter(fails_on=26))
    assert broken.texts("reason")[3] == "the prior scatter failed: ValueError('no such template')"
    assert broken.at.tolist() == [0, 1, 2, 4]
    np.testing.assert_array_equal(everyone.crystals[[0, 1, 2, 4]].frac, broken.crystals.frac)


def test_missing_compositions_and_large_cells_keep_their_place() -> None:
    found = block(Scatter(), [None, parse_formula("Na20Cl20"), CELLS[0]])
    assert found.at.tolist() == [2]
    assert list(found.rows(["reason"])) == [
        {"reason": None},
        {"reason": "40 atoms, the prior scatter places at most 20"},
        {"reason": None},
    ]
    np.testing.assert_array_equal(found.crystals.frac, block(Scatter(), [CELLS[0]] * 3).crystals[2].frac)
    nothing = block(Scatter(), [None, None])
    assert (nothing.n, len(nothing.crystals)) == (2, 0)


def test_query_decides_the_cell() -> None:
    assert block(Scatter(), [CELLS[1]], "cell").crystals.n_atoms == 4
    assert block(Scatter(), [CELLS[1]], "reduced").crystals.n_atoms == 2
    assert block(Scatter(), [parse_formula("Na20Cl20")], "reduced").crystals.n_atoms == 2


def test_coordinates_that_are_no_numbers_are_reported() -> None:
    class Broken(Scatter):
        def _one(self, request: Request) -> Crystals:
            crystal = super()._one(request)
            return crystal.replace(frac=crystal.frac * (np.nan if 26 in crystal.numbers else 1.0))

    found = block(Broken())
    assert found.texts("reason") == ["", "", "", "the prior scatter gave coordinates that are not finite", ""]
    assert found.at.tolist() == [0, 1, 2, 4]
    assert np.isfinite(found.crystals.frac).all()


EVERYWHERE = Morse(frozenset(range(1, 95)))


def test_of_several_candidates_the_lowest_is_taken() -> None:
    cells = [CELLS[0], None, CELLS[1], CELLS[4]]
    prior = Scatter()
    found = realise_block(prior, cells, seed=3, block=2, query="cell", lowest=Lowest(EVERYWHERE, 5))
    assert found.at.tolist() == [0, 2, 3]
    made = prior.sample([CELLS[0], CELLS[0], CELLS[1], CELLS[4]], 5, seed=3, stream=("evaluate", 2))
    energy = (EVERYWHERE.evaluate(made).energy / made.counts).reshape(4, 5)
    for crystal, i in zip(found.crystals, (0, 2, 3), strict=True):
        best = made[5 * i + int(energy[i].argmin())]
        np.testing.assert_array_equal(crystal.frac, best.frac)
    assert energy[[0, 2, 3]].argmin(axis=1).any()  # not always the first


def test_a_candidate_that_is_no_crystal_is_never_the_lowest() -> None:
    class Broken(Scatter):
        def _one(self, request: Request) -> Crystals:
            crystal = super()._one(request)
            if request.draw == 0:
                crystal.frac[:] = np.nan
            return crystal

    found = realise_block(Broken(), CELLS, seed=3, block=2, query="cell", lowest=Lowest(EVERYWHERE, 2))
    assert len(found.crystals) == len(CELLS)
    assert np.isfinite(found.crystals.frac).all()
    assert not len(block(Broken()).crystals)


def test_without_an_energy_the_first_candidate_is_taken() -> None:
    few = realise_block(Scatter(), CELLS, seed=3, block=2, query="cell", lowest=Lowest(Morse(), 3))
    np.testing.assert_array_equal(few.crystals.frac, block(Scatter()).crystals.frac)


def test_candidates_that_are_chosen_after_some_steps_are_given_as_made() -> None:
    lowest = Lowest(EVERYWHERE, 3, ((1, 2), (3, 1)))
    found = realise_block(Scatter(), CELLS, seed=3, block=2, query="cell", lowest=lowest)
    made = Scatter().sample(CELLS, 3, seed=3, stream=("evaluate", 2))
    for i, crystal in enumerate(found.crystals):
        assert any(np.array_equal(crystal.frac, made[3 * i + draw].frac) for draw in range(3))

"""Pairs: the same numbers for every prior, whoever else cannot be asked for."""

from collections.abc import Sequence

import numpy as np
from relax_surfaces import Morse

from anchor.chemistry.composition import Composition, parse_formula
from anchor.crystals.crystals import Crystals
from anchor.evaluate.realise import Lowest, realise_block
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


def block(prior: Prior, cells: Sequence[Composition | None] = CELLS, query: str = "cell") -> list:
    return realise_block(prior, cells, seed=3, block=2, query=query)  # type: ignore[arg-type]


def test_unknown_elements_do_not_shift_the_others() -> None:
    everyone = block(Scatter())
    without_uranium = block(Scatter(without=92))
    assert without_uranium[2] == (None, "the prior scatter does not know U")
    for i in (0, 1, 3, 4):
        np.testing.assert_array_equal(everyone[i][0].frac, without_uranium[i][0].frac)


def test_one_that_fails_does_not_void_its_block() -> None:
    everyone, broken = block(Scatter()), block(Scatter(fails_on=26))
    assert broken[3] == (None, "the prior scatter failed: ValueError('no such template')")
    for i in (0, 1, 2, 4):
        np.testing.assert_array_equal(everyone[i][0].frac, broken[i][0].frac)


def test_missing_compositions_and_large_cells_keep_their_place() -> None:
    found = block(Scatter(), [None, parse_formula("Na20Cl20"), CELLS[0]])
    assert found[0] == (None, "")
    assert found[1][0] is None
    assert "40 atoms" in found[1][1]
    np.testing.assert_array_equal(found[2][0].frac, block(Scatter(), [CELLS[0]] * 3)[2][0].frac)
    assert block(Scatter(), [None, None]) == [(None, ""), (None, "")]


def test_query_decides_the_cell() -> None:
    assert block(Scatter(), [CELLS[1]], "cell")[0][0].n_atoms == 4
    assert block(Scatter(), [CELLS[1]], "reduced")[0][0].n_atoms == 2
    assert block(Scatter(), [parse_formula("Na20Cl20")], "reduced")[0][0].n_atoms == 2


def test_coordinates_that_are_no_numbers_are_reported() -> None:
    class Broken(Scatter):
        def _one(self, request: Request) -> Crystals:
            crystal = super()._one(request)
            return crystal.replace(frac=crystal.frac * np.nan)

    assert "not finite" in block(Broken())[0][1]


EVERYWHERE = Morse(frozenset(range(1, 95)))


def test_of_several_candidates_the_lowest_is_taken() -> None:
    cells = [CELLS[0], None, CELLS[1], CELLS[4]]
    prior = Scatter()
    found = realise_block(prior, cells, seed=3, block=2, query="cell", lowest=Lowest(EVERYWHERE, 5))
    assert found[1] == (None, "")
    made = prior.sample([CELLS[0], CELLS[0], CELLS[1], CELLS[4]], 5, seed=3, stream=("evaluate", 2))
    energy = (EVERYWHERE.evaluate(made).energy / made.counts).reshape(4, 5)
    for i in (0, 2, 3):
        best = made[5 * i + int(energy[i].argmin())]
        np.testing.assert_array_equal(found[i][0].frac, best.frac)
    assert energy[[0, 2, 3]].argmin(axis=1).any()  # not always the first


def test_a_candidate_that_is_no_crystal_is_never_the_lowest() -> None:
    class Broken(Scatter):
        def _one(self, request: Request) -> Crystals:
            crystal = super()._one(request)
            if request.draw == 0:
                crystal.frac[:] = np.nan
            return crystal

    found = realise_block(Broken(), CELLS, seed=3, block=2, query="cell", lowest=Lowest(EVERYWHERE, 2))
    assert all(crystal is not None and np.isfinite(crystal.frac).all() for crystal, _ in found)
    assert "not finite" in block(Broken())[0][1]


def test_without_an_energy_the_first_candidate_is_taken() -> None:
    few = realise_block(Scatter(), CELLS, seed=3, block=2, query="cell", lowest=Lowest(Morse(), 3))
    first = block(Scatter())
    for (crystal, _), (expected, _) in zip(few, first, strict=True):
        np.testing.assert_array_equal(crystal.frac, expected.frac)

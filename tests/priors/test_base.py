"""The protocol: what may be asked, in what form, and that an answer depends on its own request only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anchor.chemistry.composition import Composition, Compositions
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.priors import PRIORS, Prior, load_prior, prior_availability


class Cubes(Prior):
    """A prior of random points in a cube; asked for atoms it can be made to give wrong ones."""

    def __init__(self, *, wrong: bool = False, device: str = "cpu") -> None:
        self.name, self.elements, self.max_atoms, self.hash = "cubes", frozenset({3, 8, 11, 17}), 6, "0"
        self.device, self.wrong = device, wrong

    def draw(self, requests):
        assert not torch.is_grad_enabled()
        batch = []
        for request in requests:
            numbers = request.composition.numbers + int(self.wrong)
            frac = request.rng("points", request.draw).random((len(numbers), 3))
            batch.append(Crystals([len(numbers)], numbers, frac, 4 * np.eye(3)[None]))
        return Crystals.concatenate(batch)


def make(*, device: str) -> Prior:
    return Cubes(device=device)


def not_a_prior(*, device: str) -> str:
    return device


def test_compositions_are_cells_and_text_is_free():
    prior = Cubes()
    assert prior.sample([{"Na": 2, "Cl": 2}]).counts.tolist() == [4]
    assert prior.sample("Na2Cl2", cell="given").counts.tolist() == [4]
    assert prior.sample("Na2Cl2", units=3).counts.tolist() == [6]
    free = prior.sample("Na2Cl2", n=20)
    assert set(free.counts.tolist()) <= {2, 4, 6}
    assert len(set(free.counts.tolist())) > 1, "later draws vary the number of formula units"
    assert len(prior.sample([])) == 0


def test_order_is_composition_by_composition():
    batch = Compositions.from_list(["NaCl", "Li2O"])
    crystals = Cubes().sample(batch, 2)
    assert crystals.formulas == ["NaCl", "NaCl", "Li2O", "Li2O"]


def test_answer_depends_on_its_own_request_only():
    prior, salt, oxide = Cubes(), Composition(("Na", "Cl"), (1, 1)), Composition(("Li", "O"), (2, 1))
    together = prior.sample([salt, oxide, salt], 2, seed=5, stream=("a", 1))
    alone = prior.sample([salt], 1, seed=5, stream=("a", 1))
    np.testing.assert_array_equal(together[0].frac, alone.frac)
    other_mates = prior.sample([oxide, oxide, salt, oxide], 2, seed=5, stream=("a", 1))
    np.testing.assert_array_equal(together[5].frac, other_mates[5].frac)
    assert not np.array_equal(together[0].frac, together[4].frac), "equal compositions draw independently"
    assert not np.array_equal(together[0].frac, prior.sample([salt], seed=6, stream=("a", 1)).frac)
    assert not np.array_equal(together[0].frac, prior.sample([salt], seed=5, stream=("a", 2)).frac)


def test_refusals_name_the_reason():
    prior = Cubes()
    with pytest.raises(InputError, match="does not know Fe"):
        prior.sample("FeO")
    with pytest.raises(InputError, match=r"8 atoms.*at most 6"):
        prior.sample([{"Na": 4, "Cl": 4}])
    with pytest.raises(InputError, match="one formula unit of"):
        prior.sample("Na2O5", cell="free")
    with pytest.raises(InputError, match="0 formula units"):
        prior.sample("NaCl", units=0)
    with pytest.raises(InputError, match="n=-1"):
        prior.sample("NaCl", n=-1)


def test_a_prior_that_answers_with_other_atoms_is_caught():
    with pytest.raises(AnchorError, match="with other atoms"):
        Cubes(wrong=True).sample("NaCl")


def test_load_by_name_and_by_place():
    assert load_prior("templates").name == "templates"
    assert load_prior("templates-all").name == "templates-all"
    assert load_prior("templates").hash != load_prior("templates-all").hash
    assert load_prior(f"{__name__}:make", device="cpu").name == "cubes"
    with pytest.raises(InputError, match="did you mean 'templates'"):
        load_prior("template")
    with pytest.raises(InputError, match="cannot be imported"):
        load_prior("no.such.module:thing")
    with pytest.raises(InputError, match="made a str"):
        load_prior(f"{__name__}:not_a_prior")
    with pytest.raises(InputError, match="does not take these settings"):
        load_prior("random", warmth=1)


def test_every_shipped_prior_can_run():
    states = prior_availability()
    assert set(states) == set(PRIORS)
    assert all(state.ok for state in states.values()), states

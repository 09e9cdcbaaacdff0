"""A trained model as a prior: what it answers, who answers where it fails, what its hash covers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import CSP, tiny

from anchor.chemistry.composition import Composition
from anchor.errors import AnchorError, InputError, MissingDependencyError
from anchor.models import omatg
from anchor.models.data import TrainingSet, reference_split
from anchor.models.registry import SHIPPED
from anchor.priors import load_prior
from anchor.priors.learned import LearnedPrior
from anchor.priors.request import Request


@pytest.fixture(scope="module")
def prior() -> LearnedPrior:
    model = tiny("omatg")
    model.fit_statistics(TrainingSet(reference_split("val")[:200]).crystals)
    elements = frozenset(reference_split("train").numbers.tolist())
    return LearnedPrior(model.eval(), elements=elements, steps=6)


def test_a_crystal_does_not_depend_on_batch_mates(prior):
    wanted = {"Na": 2, "Cl": 2}
    mixed = prior.sample(
        [{"Mg": 1, "O": 1}, wanted, {"Li": 1, "Fe": 1, "O": 2}, {"K": 2, "Br": 2}], n=2, seed=5
    )
    alone = prior.answer(_requests(wanted, position=1, n=2, seed=5)).crystals
    for k in range(2):
        np.testing.assert_allclose(alone[k].lattice, mixed[2 + k].lattice, atol=1e-4)
        gap = alone[k].frac - mixed[2 + k].frac
        np.testing.assert_allclose(gap - np.rint(gap), 0, atol=1e-4)


def _requests(cell: dict[str, int], *, position: int, n: int, seed: int) -> list[Any]:
    composition = Composition(tuple(cell), tuple(cell.values()))
    return [Request(composition, 2, draw, seed, (position,)) for draw in range(n)]


def test_half_precision_gives_nearly_the_same_crystals(prior):
    half = LearnedPrior(prior.model, elements=prior.elements, steps=6, precision="bf16")
    exact, rough = (p.sample({"Na": 2, "Cl": 2}, n=4, seed=3) for p in (prior, half))
    np.testing.assert_allclose(rough.lattice, exact.lattice, atol=0.1)
    assert half.hash != prior.hash


def test_draws_and_seeds_differ_and_the_way_a_formula_is_written_does_not_matter(prior):
    a = prior.sample({"Na": 1, "Cl": 1}, n=2, seed=1)
    b = prior.sample({"Cl": 1, "Na": 1}, n=2, seed=1)
    c = prior.sample({"Na": 1, "Cl": 1}, n=2, seed=2)
    np.testing.assert_array_equal(a.frac, b.frac)
    assert not np.allclose(a[0].frac, a[1].frac)
    assert not np.allclose(a.frac, c.frac)
    assert prior.sample("NaCl", n=3).counts.tolist()  # units are chosen for it


class Broken(omatg.Omatg):
    """Whose cells are broken, but for the last of each batch."""

    def generate(self, numbers, noise, *, steps=None, recorder=None):
        frac, cell = super().generate(numbers, noise, steps=steps, recorder=recorder)
        cell[: len(cell) - 1] = torch.nan
        return frac, cell


def broken(prior: LearnedPrior, fallback: str) -> LearnedPrior:
    torch.manual_seed(0)
    model = Broken(omatg.OmatgSettings(size=CSP, target="end"))
    return LearnedPrior(model, elements=prior.elements, steps=3, fallback=fallback)


def test_broken_cells_are_drawn_again_then_answered_by_another_prior_that_is_named(prior):
    answer = broken(prior, "random").realise({"Na": 2, "Cl": 2}, n=5)
    assert answer.made_by == ["random", "random", "omatg", "omatg", "omatg"]  # each attempt saves one
    assert answer.request.tolist() == [0, 1, 2, 3, 4]
    assert not answer.missing
    assert np.isfinite(answer.crystals.lattice).all()
    assert set(answer.crystals.formulas) == {"NaCl"}


def test_without_a_fallback_requests_stay_without_an_answer(prior):
    alone = broken(prior, "none")
    answer = alone.realise([{"Na": 2, "Cl": 2}, {"Mg": 1, "O": 1}], n=5)
    assert answer.request.tolist() == [2, 3, 4, 7, 8, 9]
    assert answer.made_by == ["omatg"] * 6
    assert sorted(answer.missing) == [0, 1, 5, 6]
    assert "no usable cell in 3 attempts" in answer.missing[0]
    filled = broken(prior, "random").sample([{"Na": 2, "Cl": 2}, {"Mg": 1, "O": 1}], n=5)
    np.testing.assert_array_equal(filled[answer.request].frac, answer.crystals.frac)
    with pytest.raises(AnchorError, match="4 of 10 crystals are missing"):
        alone.sample([{"Na": 2, "Cl": 2}, {"Mg": 1, "O": 1}], n=5)
    with pytest.raises(InputError, match="unknown fallback 'template'"):
        broken(prior, "template")


def test_left_handed_cells_are_turned(prior):
    class Mirrored(omatg.Omatg):
        def generate(self, numbers, noise, *, steps=None, recorder=None):
            frac, cell = super().generate(numbers, noise, steps=steps, recorder=recorder)
            return frac, cell * torch.tensor([[1.0], [1.0], [-1.0]])

    model = Mirrored(omatg.OmatgSettings(size=CSP, target="end"))
    mirrored = LearnedPrior(model, elements=prior.elements, steps=3)
    assert (np.linalg.det(mirrored.sample({"Na": 2, "Cl": 2}, n=3).lattice) > 0).all()


def test_missing_weights_say_how_to_train(monkeypatch, tmp_path: Path):
    monkeypatch.setattr("anchor.priors.learned.SHIPPED", tmp_path)
    with pytest.raises(MissingDependencyError, match="has no weights yet") as error:
        load_prior("kldm")
    assert "anchor prior train kldm" in str(error.value)


@pytest.mark.parametrize("name", ["omatg", "wyckoff"])
def test_the_hash_is_of_the_live_weights_and_all_settings(name):
    loaded, again = load_prior(name), load_prior(name)
    assert loaded.hash == again.hash
    before = loaded.hash
    loaded.sample("NaCl")
    assert loaded.hash == before, "use changes nothing"
    weights = next(iter(loaded.model.parameters()))
    with torch.no_grad():
        weights.view(-1)[0] += 1e-3
    assert loaded.hash != before
    with torch.no_grad():
        weights.copy_(next(iter(again.model.parameters())))
    assert loaded.hash == before
    next(iter(loaded.model.buffers())).view(-1)[0] += 1
    assert loaded.hash != before, "buffers count too"


def test_loaded_priors_are_frozen():
    for name in ("omatg", "kldm", "crystalite", "wyckoff"):
        model = load_prior(name).model
        assert not model.training
        assert not any(p.requires_grad for p in model.parameters())


def test_the_hash_covers_the_sampler(prior):
    def made(**settings: Any) -> str:
        return LearnedPrior(prior.model, elements=prior.elements, **{"steps": 6, **settings}).hash

    assert made() == prior.hash
    assert len({made(), made(steps=7), made(fallback="none"), made(precision="bf16")}) == 4
    with pytest.raises(InputError, match="too few"):
        made(steps=1)


@pytest.mark.parametrize("name", ["omatg", "kldm", "crystalite", "wyckoff"])
def test_samples_are_those_of_before(name):
    """Samples of the weights that ship, stored when samplers were loops: cutting them up changed nothing.

    Other processors may round otherwise; here they agree to the bit.
    """
    stored = np.load(Path(__file__).with_name("learned_samples.npz"))
    data = (SHIPPED / f"{name}.safetensors").read_bytes()
    tensors = data[8 + int.from_bytes(data[:8], "little") :]  # without the card in the header
    if hashlib.sha256(tensors).hexdigest() != str(stored[f"{name}.tensors"]):
        pytest.skip("trained again since")
    made = load_prior(name).sample([{"Na": 1, "Cl": 1}, {"Sr": 1, "Ti": 1, "O": 3}], seed=7)
    np.testing.assert_allclose(made.lattice, stored[f"{name}.lattice"], atol=5e-3)
    gap = made.frac - stored[f"{name}.frac"]
    np.testing.assert_allclose(gap - np.rint(gap), 0, atol=5e-3)

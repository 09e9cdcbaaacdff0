"""Training: exact resume, averages, files; a few crystals learned by heart."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import tiny

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.models.base import Recipe, StructureModel
from anchor.models.data import TrainingSet, reference_split
from anchor.models.files import keep_until, read_lines
from anchor.models.registry import load_model, new_model, save_model
from anchor.models.training import (
    STATE_FILE,
    Trainer,
    evaluation_loss,
    even_times,
    learning_rate,
)
from anchor.priors.learned import prior_of
from anchor.priors.match_rate import displacement


@pytest.fixture(scope="module")
def eight() -> Crystals:
    train = reference_split("train")
    return train[np.concatenate([np.flatnonzero(train.counts == n)[[5, 105, 205, 300]] for n in (3, 4)])]


def cells_of(crystals: Crystals) -> list[dict[str, int]]:
    amounts = [structure.composition.get_el_amt_dict() for structure in crystals.to_structures()]
    return [{element: int(count) for element, count in cell.items()} for cell in amounts]


@pytest.mark.parametrize(
    ("name", "steps", "drop"), [("omatg", 350, 0.15), ("kldm", 350, 0.6), ("crystalite", 250, 0.7)]
)
def test_eight_crystals_are_learned(name, steps, drop, eight):
    """The loss falls well below its start; omatg, the fastest learner, also reproduces the crystals."""
    model = tiny(name)
    data = TrainingSet(eight)
    model.fit_statistics(data.crystals)
    recipe = Recipe(learning_rate=3e-3, batch_size=32, warmup=20, clip=1.0, ema=0.98, schedule="cosine")
    trainer = Trainer(model, data, recipe, total_steps=steps, precision="fp32")
    before = evaluation_loss(model, data)["loss"]
    for _ in range(steps):
        trainer.advance()
    with trainer.averaged() as averaged:
        assert evaluation_loss(averaged, data)["loss"] < drop * before
        if name == "omatg":
            prior = prior_of(averaged, elements=data.elements, steps=50, fallback="none")
            samples = prior.sample(cells_of(eight), seed=1)
            distances = [displacement(made, true) for made, true in zip(samples, eight, strict=True)]
            assert np.sum(np.array(distances) < 0.2) >= 5, distances  # NaN, no match, counts as far


def test_a_stopped_run_ends_where_an_unbroken_one_does(tmp_path: Path, eight):
    recipe = Recipe(optimiser="amsgrad", learning_rate=1e-3, batch_size=12, warmup=3, clip=0.5, ema=0.9)

    def trainer() -> Trainer:
        model = tiny("kldm")
        data = TrainingSet(eight)
        model.fit_statistics(data.crystals)
        return Trainer(model, data, recipe, seed=4)

    whole = trainer()
    for _ in range(6):
        whole.advance()
    first = trainer()
    for _ in range(3):
        first.advance()
    first.save(tmp_path, {})
    second = trainer()
    second.restore(tmp_path, json.loads((tmp_path / STATE_FILE).read_text()))
    for _ in range(3):
        second.advance()
    assert second.step == whole.step == 6
    for (name, a), b in zip(
        whole.model.state_dict().items(), second.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name
    assert all(torch.equal(whole.ema[name], second.ema[name]) for name in whole.ema)


def test_averaged_weights_come_and_go(eight):
    model = tiny("omatg")
    data = TrainingSet(eight)
    trainer = Trainer(model, data, Recipe(batch_size=8, ema=0.5, warmup=0))
    trainer.advance()
    now = {name: p.detach().clone() for name, p in model.named_parameters()}
    with trainer.averaged():
        assert any(not torch.equal(p, now[name]) for name, p in model.named_parameters())
        assert not model.training
    assert all(torch.equal(p, now[name]) for name, p in model.named_parameters())
    assert model.training


def test_learning_rates():
    constant = Recipe(learning_rate=1.0, warmup=10)
    assert [learning_rate(constant, step, None) for step in (0, 4, 9, 500)] == [0.1, 0.5, 1.0, 1.0]
    cosine = Recipe(learning_rate=1.0, warmup=0, schedule="cosine")
    rates = [learning_rate(cosine, step, 100) for step in range(101)]
    assert rates[0] == 1.0
    assert rates[50] == pytest.approx(0.505)
    assert rates[100] == pytest.approx(0.01)
    assert all(a > b for a, b in pairwise(rates))
    with pytest.raises(InputError, match="needs to know where it ends"):
        Trainer(tiny("omatg"), TrainingSet(reference_split("val")[:2]), cosine)


def test_times_are_even():
    times = even_times(50, 0, 3)
    np.testing.assert_array_equal(np.sort((50 * times).int()), np.arange(50))
    assert not torch.equal(times, even_times(50, 0, 4))


def test_the_loss_is_the_mean_over_all_atoms_of_the_batch(eight):
    """Groups of 3 and of 4 atoms weigh by their atoms, as in one padded batch."""
    model = tiny("omatg")
    data = TrainingSet(eight)
    losses = evaluation_loss(model, data)
    small, large = (evaluation_loss_of(model, data, n) for n in (3, 4))
    expected = (4 * 9 * small + 4 * 12 * large) / (4 * 9 + 4 * 12)
    assert losses["coordinates"] == pytest.approx(expected, rel=1e-5)


def evaluation_loss_of(model: StructureModel, data: TrainingSet, n: int) -> float:
    from anchor.models.data import to_batches
    from anchor.random import torch_generator

    times = even_times(len(data), 0, "evaluation")
    for places, batch in to_batches(data.crystals):
        if batch.n_atoms == n:
            rng = torch_generator(0, "evaluation noise", n)
            with torch.no_grad():
                sums = model.loss_sums(batch, times[places], rng)
            return sums["coordinates"].item() / (len(batch) * 3 * n)
    raise AssertionError(n)


@pytest.mark.parametrize("name", ["omatg", "kldm", "crystalite"])
def test_files_hold_the_model(name, tmp_path: Path, eight):
    model = tiny(name)
    model.fit_statistics(TrainingSet(eight).crystals)
    save_model(tmp_path / "m.safetensors", model, {"elements": [11, 17], "card": {}})
    loaded, card = load_model(tmp_path / "m.safetensors")
    assert card["elements"] == [11, 17]
    assert loaded.settings() == model.settings()
    for a, b in zip(model.state_dict().values(), loaded.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    save_model(tmp_path / "h.safetensors", model, {"elements": [11], "card": {}}, half=True)
    assert (tmp_path / "h.safetensors").stat().st_size < 0.7 * (tmp_path / "m.safetensors").stat().st_size


def test_other_files_are_refused(tmp_path: Path):
    (tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(InputError, match="not a file of anchor's weights"):
        load_model(tmp_path / "bad.safetensors")
    with pytest.raises(MissingDependencyError, match="no weights at"):
        load_model(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="unknown model"):
        new_model("omat")
    with pytest.raises(InputError, match="unknown size"):
        new_model("omatg", "huge")


def test_logs_forget_steps_that_are_done_again(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    keep_until(path, 2)
    assert [line["step"] for line in read_lines(path)] == [1, 2]

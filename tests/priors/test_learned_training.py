"""Training: exact resume, averages, files; a few crystals learned by heart; the prior; commands."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.priors import load_prior
from anchor.priors.learned import crystalite, kldm, omatg
from anchor.priors.learned.data import TrainingSet, reference_split
from anchor.priors.learned.files import keep_until, read_lines
from anchor.priors.learned.model import Recipe, StructureModel
from anchor.priors.learned.network import CspSize
from anchor.priors.learned.prior import LearnedPrior
from anchor.priors.learned.run import Plan, Rhythm, as_prior, train
from anchor.priors.learned.training import (
    STATE_FILE,
    Trainer,
    evaluation_loss,
    even_times,
    learning_rate,
)
from anchor.priors.learned.transformer import TransformerSize
from anchor.priors.learned.weights import load_model, new_model, save_model
from anchor.priors.match_rate import displacement

CSP = CspSize(hidden=64, messages=48, layers=3, frequencies=6, time_features=32, shells=12)
TRANSFORMER = TransformerSize(
    width=64, layers=3, heads=4, frequencies=6, pair_frequencies=4, gaussians=12, pair_hidden=32
)


def tiny(name: str) -> StructureModel:
    torch.manual_seed(0)
    if name == "omatg":
        return omatg.Omatg(
            omatg.OmatgSettings(
                size=CSP, cell_features="shape", time_scale=1000.0, target="end", cell_weight=0.02
            )
        )
    if name == "kldm":
        return kldm.Kldm(kldm.KldmSettings(size=CSP, cell_step="exact"))
    return crystalite.Crystalite(
        crystalite.CrystaliteSettings(size=TRANSFORMER, standardise=True, annealing=(0.0, 0.0))
    )


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
            prior = as_prior(trainer, averaged, steps=50)
            samples = prior.sample(cells_of(eight), seed=1)
            distances = [displacement(made, true) for made, true in zip(samples, eight, strict=True)]
            assert np.sum(np.array(distances) < 0.2) >= 5, distances  # NaN, no match, counts as far
            assert prior.fallbacks == 0


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
    from anchor.priors.learned.data import to_batches
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
    with pytest.raises(InputError, match="holds no weights"):
        load_model(tmp_path / "bad.safetensors")
    with pytest.raises(MissingDependencyError, match="no weights at"):
        load_model(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="unknown learned prior"):
        new_model("omat")
    with pytest.raises(InputError, match="unknown size"):
        new_model("omatg", "huge")


# The prior


@pytest.fixture(scope="module")
def prior() -> LearnedPrior:
    model = tiny("omatg")
    model.fit_statistics(TrainingSet(reference_split("val")[:200]).crystals)
    elements = frozenset(reference_split("train").numbers.tolist())
    return LearnedPrior(model.eval(), elements=elements, identity="test", steps=6)


def test_a_crystal_does_not_depend_on_batch_mates(prior):
    wanted = {"Na": 2, "Cl": 2}
    mixed = prior.sample(
        [{"Mg": 1, "O": 1}, wanted, {"Li": 1, "Fe": 1, "O": 2}, {"K": 2, "Br": 2}], n=2, seed=5
    )
    alone = prior.draw(_requests(wanted, position=1, n=2, seed=5))
    for k in range(2):
        np.testing.assert_allclose(alone[k].lattice, mixed[2 + k].lattice, atol=1e-4)
        gap = alone[k].frac - mixed[2 + k].frac
        np.testing.assert_allclose(gap - np.rint(gap), 0, atol=1e-4)


def _requests(cell: dict[str, int], *, position: int, n: int, seed: int) -> list[Any]:
    from anchor.chemistry.composition import Composition
    from anchor.priors.base import Request

    composition = Composition(tuple(cell), tuple(cell.values()))
    return [Request(composition, 2, draw, seed, (position,)) for draw in range(n)]


def test_half_precision_gives_nearly_the_same_crystals(prior):
    half = LearnedPrior(prior.model, elements=prior.elements, identity="test", steps=6, precision="bf16")
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


def test_broken_cells_are_drawn_again_then_answered_by_another_prior(prior):
    class Broken(omatg.Omatg):
        def generate(self, numbers, noise, *, steps=None):
            frac, cell = super().generate(numbers, noise, steps=steps)
            cell[: len(cell) - 1] = torch.nan  # all but the last of each batch
            return frac, cell

    model = Broken(omatg.OmatgSettings(size=CSP, target="end"))
    broken = LearnedPrior(model, elements=prior.elements, identity="broken", steps=3, fallback="random")
    crystals = broken.sample({"Na": 2, "Cl": 2}, n=5)
    assert broken.fallbacks == 2  # each of three attempts saves one
    assert np.isfinite(crystals.lattice).all()
    assert set(crystals.formulas) == {"NaCl"}


def test_left_handed_cells_are_turned(prior):
    class Mirrored(omatg.Omatg):
        def generate(self, numbers, noise, *, steps=None):
            frac, cell = super().generate(numbers, noise, steps=steps)
            return frac, cell * torch.tensor([[1.0], [1.0], [-1.0]])

    model = Mirrored(omatg.OmatgSettings(size=CSP, target="end"))
    mirrored = LearnedPrior(model, elements=prior.elements, identity="mirrored", steps=3)
    assert (np.linalg.det(mirrored.sample({"Na": 2, "Cl": 2}, n=3).lattice) > 0).all()


def test_missing_weights_say_how_to_train(monkeypatch, tmp_path: Path):
    monkeypatch.setattr("anchor.priors.learned.prior.SHIPPED", tmp_path)
    with pytest.raises(MissingDependencyError, match="has no weights yet") as error:
        load_prior("kldm")
    assert "anchor prior train kldm" in str(error.value)


def test_the_identity_of_a_prior_covers_weights_and_sampler(prior):
    other = LearnedPrior(prior.model, elements=prior.elements, identity="test", steps=7)
    same = LearnedPrior(prior.model, elements=prior.elements, identity="test", steps=6)
    assert prior.hash == same.hash
    assert prior.hash != other.hash
    with pytest.raises(InputError, match="too few"):
        LearnedPrior(prior.model, elements=prior.elements, identity="test", steps=1)


# Whole runs

QUICK = Rhythm(log=0.0, match_crystals=2, match_steps=2, test_crystals=2)


def test_a_run_in_a_folder_can_be_resumed_and_used(tmp_path: Path):
    def plan(steps: int) -> Plan:
        return Plan("omatg", steps=steps, max_atoms=3, recipe=(("batch_size", 8),), settings=(("steps", 4),))

    train(plan(2), tmp_path / "run", rhythm=QUICK)
    with pytest.raises(InputError, match="already holds a run"):
        train(plan(2), tmp_path / "run", rhythm=QUICK)
    with pytest.raises(InputError, match="another seed"):
        train(Plan(**{**plan(3).__dict__, "seed": 1}), tmp_path / "run", resume=True, rhythm=QUICK)
    card = train(plan(3), tmp_path / "run", resume=True, rhythm=QUICK, command=["anchor", "prior", "train"])
    assert card["steps"] == 3
    train(plan(3), tmp_path / "whole", rhythm=QUICK)
    resumed, _ = load_model(tmp_path / "run" / "omatg.safetensors")
    whole, _ = load_model(tmp_path / "whole" / "omatg.safetensors")
    for a, b in zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines if line["kind"] == "training"] == [1, 2, 3]
    page = (tmp_path / "run" / "omatg.md").read_text()
    assert "anchor prior train" in page
    assert card["data_hash"] in page
    prior = load_prior(str(tmp_path / "run" / "omatg.safetensors"), steps=3)
    assert prior.sample("NaCl", n=2, units=1).formulas == ["NaCl", "NaCl"]


def test_plans_are_checked(tmp_path: Path):
    with pytest.raises(InputError, match="needs an end"):
        train(Plan("omatg"), tmp_path)
    with pytest.raises(InputError, match="no run to resume"):
        train(Plan("omatg", steps=1), tmp_path / "nothing", resume=True)
    with pytest.raises(InputError, match="there is no setting 'stepz'"):
        train(Plan("omatg", steps=1, settings=(("stepz", 1),)), tmp_path / "a")


def test_logs_forget_steps_that_are_done_again(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    keep_until(path, 2)
    assert [line["step"] for line in read_lines(path)] == [1, 2]


def test_commands(tmp_path: Path):
    run = CliRunner().invoke
    small = ["--max-atoms", "2", "--batch-size", "4", "--test", "1", "--match", "2", "--json"]
    out = tmp_path / "run"
    result = run(
        app, ["prior", "train", "omatg", "--out", str(out), "--steps", "1", "--set", "steps=3", *small]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == 1
    weights = str(out / "omatg.safetensors")
    result = run(app, ["prior", "finetune", weights, "--out", str(tmp_path / "more"), "--steps", "1", *small])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["recipe"]["learning_rate"] == 1e-4
    assert json.loads(result.stdout)["started_from"]["steps"] == 1
    result = run(
        app,
        ["prior", "train", "kldm", "--start", weights, "--out", str(tmp_path / "k"), "--steps", "1", *small],
    )
    assert result.exit_code == 0, result.output
    result = run(app, ["prior", "test", "--prior", weights, "-n", "2", "--set", "steps=3", "--json"])
    assert json.loads(result.stdout)["settings"] == {"steps": 3, "fallback": "random"}
    result = run(app, ["prior", "train", "omatgg", "--out", str(tmp_path / "x"), "--steps", "1"])
    assert isinstance(result.exception, InputError) or result.exit_code == 2

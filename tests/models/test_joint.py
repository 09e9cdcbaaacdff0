"""Models that choose elements: densities against samplers, no leaks of elements, beginning as CSP models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import tiny_joint
from tiny_ways import joint_model_of as model_of
from tiny_ways import joint_rollout as rollout
from tiny_ways import noise

from anchor.chemistry.elements import NUMBER
from anchor.errors import InputError
from anchor.models.compositions import learn_compositions
from anchor.models.data import Batch, TrainingSet, reference_split, to_batches
from anchor.models.ddpo import Tether, Way, accumulate
from anchor.models.frames import ranks
from anchor.models.kldm_dng import due
from anchor.models.registry import load_model, model_from, new_model, save_model
from anchor.models.training import Trainer
from anchor.models.transformer import expected_ranks
from anchor.models.transitions import Gaussian, InTurn, Process, Trajectory, Transition, Unmasking
from anchor.models.types import KINDS, LATENT, element_vectors
from anchor.weights import live_hash

NAMES = ("kldm-dng", "crystalite-dng")


def some_batch(n: int = 4) -> Batch:
    crystals = TrainingSet(reference_split("val")).crystals
    return next(batch for _, batch in to_batches(crystals[np.flatnonzero(crystals.counts == n)[:6]]))


# Elements as vectors and as chances


def test_vectors_of_elements():
    vectors = element_vectors()
    assert vectors.shape == (KINDS, LATENT)
    torch.testing.assert_close(vectors[1:95].norm(dim=1), torch.ones(94))
    assert vectors[0].abs().sum() == vectors[95:].abs().sum() == 0
    likeness = vectors[1:95] @ vectors[1:95].T
    assert (likeness.argmax(dim=1) == torch.arange(94)).all(), "every element is nearest to itself"

    def alike(a: str, b: str) -> float:
        return float(vectors[NUMBER[a]] @ vectors[NUMBER[b]])

    assert alike("Pr", "Nd") > alike("Pr", "O")
    assert alike("Li", "Na") > alike("Li", "Cl")


def test_expected_ranks_are_the_ranks_of_certain_elements():
    numbers = torch.tensor([[8, 26, 3, 8, 8, 15], [17, 11, 11, 17, 1, 1]])
    certain = torch.nn.functional.one_hot(numbers, KINDS).float()
    rank, count = ranks(numbers.numpy())
    soft_rank, soft_count = expected_ranks(certain)
    assert soft_rank.tolist() == rank.tolist()
    assert soft_count.tolist() == count.tolist()


def test_with_little_noise_the_chances_are_certain_and_with_much_they_are_the_shares():
    model = model_of("crystalite-dng")
    numbers = torch.tensor([[8, 26, 3]])
    z = model.vectors[numbers]
    little = model.log_chances(z, torch.tensor([0.005])).exp()
    assert little.gather(-1, numbers[..., None]).min() > 0.999
    much = model.log_chances(z, torch.tensor([1e4])).exp()
    torch.testing.assert_close(much[0, 0], model.marginals.elements, atol=1e-5, rtol=0)


# Uncovering: frequencies and sums against exact ones


def test_uncovering_draws_what_its_density_says():
    chances = torch.tensor([0.0, 0.5, 0.3, 0.2])
    count = 4000
    part = Unmasking(torch.zeros(count, 2, dtype=torch.long), 0.4, chances.log().expand(count, 2, 4))
    drawn = part.draw(noise(count))
    found = torch.bincount(drawn.flatten(), minlength=4) / (2 * count)
    expected = torch.tensor([0.6, 0.2, 0.12, 0.08])
    assert (found - expected).abs().max() < 4 * math.sqrt(0.24 / (2 * count))
    one = Unmasking(torch.zeros(1, 2, dtype=torch.long), 0.4, chances.log().expand(1, 2, 4))
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    total = sum(float(one.log_prob(pair[None], one.numbers).exp()) for pair in pairs)
    assert total == pytest.approx(1.0, abs=1e-6)
    kept = Unmasking(torch.tensor([[2, 0]]), 1.0, chances.log().expand(1, 2, 4))
    assert kept.draw(noise(1))[0, 0] == 2
    assert float(kept.log_prob(torch.tensor([[2, 1]]), kept.numbers)) == pytest.approx(math.log(0.5))


def test_uncovering_in_turn_draws_what_its_density_says():
    chances, count = torch.tensor([0.0, 0.7, 0.3]), 6000
    numbers = torch.tensor([[0, 2, 0, 0]])
    one = InTurn(numbers, 2, chances.log().expand(1, 4, 3))
    many = InTurn(numbers.expand(count, 4), 2, chances.log().expand(count, 4, 3))
    drawn, found = many.draw(noise(count)), []
    assert (drawn[:, 1] == 2).all(), "what is uncovered never changes"
    assert ((drawn == 0).sum(dim=1) == 1).all(), "two of three"
    for value in torch.cartesian_prod(*[torch.arange(3)] * 3):
        whole = torch.stack([value[0], torch.tensor(2), value[1], value[2]])
        chance = float(one.log_prob(whole[None], numbers).exp())
        share = float((drawn == whole).all(dim=1).float().mean())
        assert abs(share - chance) < 4 * math.sqrt(max(chance, 1e-4) / count)
        found.append(chance)
    assert sum(found) == pytest.approx(1.0, abs=1e-6)
    assert found.count(0.0) == len(found) - 12, "three pairs of atoms, two elements each"


@pytest.mark.parametrize("n", [1, 4, 7, 20])
@pytest.mark.parametrize("steps", [3, 7, 50])
def test_in_turn_all_are_uncovered_and_none_with_another_if_there_are_steps_enough(n, steps):
    counts = [due(n, i + 1, steps) - due(n, i, steps) for i in range(steps)]
    assert sum(counts) == n
    assert max(counts) <= math.ceil(n / steps)
    at_once = due(n, torch.arange(steps) + 1, steps) - due(n, torch.arange(steps), steps)
    assert at_once.tolist() == counts


def test_the_chance_of_an_element_is_that_of_all_ways_to_it():
    """Σ over the steps at which an atom may be uncovered of exp(Σ ln p), for constant chances."""

    class Constant(Process):
        steps = 5

        def __init__(self):
            self.numbers = torch.zeros(1, 1, dtype=torch.long)

        def start(self, noise):  # noqa: ARG002
            return {"h": self.numbers}

        def transition(self, i, state):
            u = 1.0 if i == self.steps - 1 else 0.3
            return Transition(
                {"h": Unmasking(state["h"], u, torch.tensor([[[-math.inf, 0.25, 0.75]]]).log())}
            )

    process, total = Constant(), 0.0
    for when in range(5):
        way = Trajectory()
        blank, found = torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1), 2)
        way.begin(process, {"h": blank})
        for i in range(5):
            way.add(process.transition(i, way.states[-1]), {"h": found if i >= when else blank})
        total += float(way.log_prob(list(range(5))).sum().exp())
    assert total == pytest.approx(0.75, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_replayed_densities_are_those_of_the_sampler(name):
    model = model_of(name)
    way = rollout(model)
    again = model.log_prob(way)
    torch.testing.assert_close(again, way.log_prob(), atol=1e-3, rtol=1e-5)
    assert set(way.transitions[0].parts) == ({"v", "l", "h"} if name == "kldm-dng" else {"x", "y", "z"})
    assert way.states[-1]["h" if name == "kldm-dng" else "z"].shape[:2] == (2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_mean_density_is_minus_the_entropy(name):
    """−E[ln p] of one step from many draws against the entropy of its parts, in closed form."""
    model, count = model_of(name), 600
    with torch.no_grad():
        process = model.process(torch.zeros(1, 2, dtype=torch.long), steps=4)
        state = process.start(noise(1))
        step = process.transition(2, state)
    many = {key: _repeated(part, count) for key, part in step.parts.items()}
    drawn = {key: part.draw(noise(count, seed=5)) for key, part in many.items()}
    found = -sum(part.log_prob(drawn[key], part.around) for key, part in many.items())
    expected = sum(_entropy(part) for part in step.parts.values())
    spread = float(found.std()) / math.sqrt(count)
    assert float(found.mean()) == pytest.approx(expected, abs=4 * spread)


def _repeated(part, count):
    if isinstance(part, Gaussian):
        return replace(part, mean=part.mean.expand(count, *part.mean.shape[1:]))
    numbers = part.numbers.expand(count, -1)
    return replace(
        part, numbers=numbers, log_chances=part.log_chances.expand(count, *part.log_chances.shape[1:])
    )


def _entropy(part) -> float:
    if isinstance(part, Gaussian):
        free = part.mean[0].numel() - (3 if part.centred else 0)
        return free / 2 * math.log(2 * math.pi * math.e * part.std**2)
    assert part.count > 0
    p = part.log_chances[part.numbers == 0]
    own = -(p.exp() * p).nan_to_num().sum(-1)
    return math.log(math.comb(len(own), part.count)) + float(part.count * own.mean())


# Nothing that is noised or seen knows the clean elements


@pytest.mark.parametrize("name", NAMES)
def test_noise_of_coordinates_and_cell_does_not_know_the_elements(name):
    model, batch = model_of(name), some_batch()
    other = replace(batch, numbers=batch.numbers.roll(1, dims=0) % 80 + 3)
    u = torch.linspace(0.1, 0.9, len(batch))
    one = model.csp.noised_batch(batch, u, torch.Generator().manual_seed(1))[1]
    two = model.csp.noised_batch(other, u, torch.Generator().manual_seed(1))[1]
    for key, value in one.items():
        assert torch.equal(value, two[key]), key


def test_masked_atoms_look_alike(monkeypatch):
    """With all atoms masked the network sees the same for any elements, and tells the same chances."""
    model, batch = model_of("kldm-dng"), some_batch()
    seen = []
    predict = model.predict
    monkeypatch.setattr(model, "predict", lambda *a: seen.append(a) or predict(*a))
    late = torch.ones(len(batch))
    for numbers in (batch.numbers, torch.full_like(batch.numbers, 26)):
        model.loss_sums(replace(batch, numbers=numbers), late, torch.Generator().manual_seed(1))
    for one, two in zip(*seen, strict=True):
        assert torch.equal(one, two)
    assert (seen[0][0] == 0).float().mean() > 0.99


def test_vectors_are_all_that_is_seen_of_the_elements(monkeypatch):
    """crystalite-dng's network gets noisy x, y, z and σ, no atomic numbers; other elements shift z alone."""
    model, batch = model_of("crystalite-dng"), some_batch()
    seen = []
    answer = model.answer
    monkeypatch.setattr(model, "answer", lambda *a: seen.append(a) or answer(*a))
    u = torch.linspace(0.1, 0.9, len(batch))
    iron = torch.full_like(batch.numbers, 26)
    for numbers in (batch.numbers, iron):
        model.loss_sums(replace(batch, numbers=numbers), u, torch.Generator().manual_seed(1))
    (one, sigma), (two, _) = seen
    assert set(one) == {"x", "y", "z"}
    assert torch.equal(one["x"], two["x"])
    shift = model.vectors[iron] - model.vectors[batch.numbers]
    torch.testing.assert_close(two["z"] - one["z"], shift, atol=1e-5, rtol=0)
    assert sigma.shape == (len(batch),)


# Samples, training, files


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_crystals_of_training_elements(name):
    model = model_of(name)
    with torch.no_grad():
        numbers, frac, cell = model.create(4, noise(3), steps=4)
        alone, _, _ = model.create(4, noise(1), steps=4)
    assert numbers.shape == (3, 4)
    assert frac.shape == (3, 4, 3)
    assert cell.shape == (3, 3, 3)
    assert (model.marginals.elements[numbers] > 0).all(), "every atom has an element of the training set"
    assert torch.equal(alone[0], numbers[0]), "batch mates do not matter"


@pytest.mark.parametrize("name", NAMES)
def test_compositions_are_learned_first_and_files_keep_them(name, tmp_path):
    """What goes together is learned without the network, which stays; then a step of all trains it, too."""
    model, again = tiny_joint(name), tiny_joint(name)
    data = model.training_set(reference_split("train")[:1024])
    model.fit_statistics(data.crystals)
    again.fit_statistics(data.crystals)
    network = live_hash(model.csp, "")
    losses = learn_compositions(model, data.crystals)
    assert losses[-1] < losses[0] - 0.05
    assert live_hash(model.csp, "") == network
    few = data.crystals[:32]
    learn_compositions(again, few, seed=1)
    other = tiny_joint(name)
    other.fit_statistics(data.crystals)
    learn_compositions(other, few, seed=1)
    assert live_hash(again, "") == live_hash(other, ""), "same seed, same weights"
    trainer = Trainer(model, data, replace(model.recipes["small"], batch_size=4), precision="fp32")
    assert math.isfinite(trainer.advance()["types"])
    assert live_hash(model.csp, "") != network
    path = tmp_path / "m.safetensors"
    save_model(path, model, {"elements": [], "card": {}})
    read, _ = load_model(path)
    assert all(torch.equal(t, read.state_dict()[key]) for key, t in model.state_dict().items())
    assert read.settings() == model.settings()


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_as_its_twin_and_as_nobody_else(name):
    model = tiny_joint(name)
    twin = type(model.csp)(model.chosen.csp)
    model.begin_as(twin)
    mine = dict(model.csp.named_parameters())
    for key, value in twin.named_parameters():
        masked = 1 if name == "kldm-dng" and key == "network.elements.table.weight" else 0
        assert torch.equal(mine[key][masked:], value[masked:]), key
    with pytest.raises(InputError, match="cannot begin as"):
        model.begin_as(model_of("crystalite-dng" if name == "kldm-dng" else "kldm-dng"))


@pytest.mark.parametrize("name", NAMES)
def test_settings_make_the_model_again(name):
    small = new_model(name)
    assert model_from(name, small.settings()).settings() == small.settings()


def test_published_answer_of_crystalite_is_the_preconditioned_line():
    model = tiny_joint("crystalite-dng", answer="line")
    batch = some_batch()
    sums = model.loss_sums(batch, torch.full((len(batch),), 0.5), torch.Generator().manual_seed(0))
    assert set(sums) == {"coordinates", "cell", "types"}
    assert model.entries(4)["types"] == 4 * LATENT
    assert all(math.isfinite(value.item()) for value in sums.values())


# DDPO on them


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_finite_differences(name):
    """Along the gradient itself, as far as changes L by about a hundredth."""
    model = model_of(name).requires_grad_(True)
    way = Way(rollout(model, steps=6), np.arange(2))
    advantage = torch.tensor([1.0, -0.4])
    old = accumulate(model, [way], [advantage], clip=0.5).log_probs
    assert len(old[0]) == len(model.informative(way.trajectory)) > 0
    along = {p: p.grad.clone() for p in model.parameters() if p.grad is not None}
    norm = math.sqrt(sum(float((g**2).sum()) for g in along.values()))

    def objective(h: float) -> float:
        with torch.no_grad():
            for p, g in along.items():
                p -= h / norm * g
        found = accumulate(model, [way], [advantage], old, clip=0.5).objective
        with torch.no_grad():
            for p, g in along.items():
                p += h / norm * g
        return found

    h = 0.01 / norm
    assert (objective(h) - objective(-h)) / (2 * h) == pytest.approx(norm, rel=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_the_way_to_the_pretrained_model(name):
    """KL is 0 for equal weights, positive else, and that of a Gaussian in closed form."""
    model, other = model_of(name), model_of(name)
    way = rollout(model)
    step = model.informative(way)[0]
    now = model.transition_at(way, [step])
    assert Tether(other, 1.0).divergence(way, [step], now).abs().max().item() < 1e-6
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.01
    assert Tether(other, 1.0).divergence(way, [step], now).min().item() > 0
    two = Gaussian(torch.zeros(1, 2), 0.5), Gaussian(torch.tensor([[0.3, -0.1]]), 0.5)
    independent = [torch.distributions.Normal(part.mean, part.std) for part in two]
    expected = float(torch.distributions.kl_divergence(*independent).sum())
    assert float(two[0].divergence(two[1])) == pytest.approx(expected)
    p, q = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5])
    masks = [Unmasking(torch.zeros(1, 1, dtype=torch.long), 0.25, c.log()[None, None]) for c in (p, q)]
    apart = float((p * (p / q).log()).sum())
    assert float(masks[0].divergence(masks[1])) == pytest.approx(0.25 * apart)
    blank = torch.zeros(1, 3, dtype=torch.long)  # of three one has its turn, whichever: the sum of a third
    turns = [InTurn(blank, 1, c.log().expand(1, 3, 2)) for c in (p, q)]
    assert float(turns[0].divergence(turns[1])) == pytest.approx(apart)

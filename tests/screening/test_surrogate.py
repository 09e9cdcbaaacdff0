"""The composition surrogate: its network, its training and the file that ships."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.cli.policy import app
from anchor.errors import InputError, MissingDependencyError
from anchor.policy.actions import to_actions
from anchor.reference.reference import load_reference
from anchor.screening.surrogate import (
    PairNetwork,
    Sizes,
    Surrogate,
    calibrated_spread,
    load_surrogate,
    member_energies,
    read_surrogate,
    save_surrogate,
    surrogate_hash,
)
from anchor.screening.surrogate_training import (
    WITHIN_ONE,
    Examples,
    Settings,
    Trainer,
    errors,
    fit_spread,
    learning_rate,
    train_surrogate,
)

SMALL = Sizes(embedding=6, width=10, layers=1)


@pytest.fixture(scope="module")
def whole() -> Examples:
    """All bundled formulas."""
    return Examples.of(load_reference())


@pytest.fixture(scope="module")
def examples(whole: Examples) -> Examples:
    """A twentieth of them, test ones included."""
    return every(whole, 20)


def every(examples: Examples, nth: int) -> Examples:
    names = ("elements", "fractions", "energy", "counts", "split")
    return Examples(*(getattr(examples, name)[::nth] for name in names))


class Small:
    """A reference of few formulas, so that the whole training runs in seconds."""

    def __init__(self, rows: slice) -> None:
        whole = load_reference()
        self.hash = whole.hash
        self.hull_numbers, self.hull_counts = whole.hull_numbers[rows], whole.hull_counts[rows]
        self.hull_formation_energy = whole.hull_formation_energy[rows]
        self.hull_formulas = whole.hull_formulas[rows]


# Network


def pair_sum(network: PairNetwork, elements: list[int], fractions: list[float]) -> float:
    """E(c) pair by pair with plain loops, as the docstring of the network states it."""
    embedding = network.embedding
    mean = sum((x * embedding[e] for e, x in zip(elements, fractions, strict=True)), start=embedding[0] * 0)
    total = 0.0
    for (i, x), (j, y) in itertools.combinations(zip(elements, fractions, strict=True), 2):
        h = network.both(embedding[i]) + network.both(embedding[j])
        h = h + (x - y) * (network.difference(embedding[i]) - network.difference(embedding[j]))
        h = h + network.others(mean) + network.amounts(torch.tensor([x + y, x * y, (x - y) ** 2]))
        h = torch.nn.functional.silu(h)
        for layer in network.hidden:
            h = h + torch.nn.functional.silu(layer(h))
        total += 4 * x * y * float(network.last(h))
    return total


@given(
    elements=st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=2, max_size=4, unique=True),
    counts=st.lists(st.integers(1, 12), min_size=4, max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_energy_is_the_sum_over_pairs_in_any_order(elements: list[int], counts: list[int]) -> None:
    network = PairNetwork(SMALL, seed=3)
    k, total = len(elements), sum(counts[: len(elements)])
    fractions = [c / total for c in counts[:k]]
    padded = [*elements, *[-1] * (4 - k)]
    shares = [*fractions, *[0.0] * (4 - k)]
    order = [3, 1, 0, 2]
    with torch.no_grad():
        energy = network(torch.tensor([padded]), torch.tensor([shares]))
        other = network(
            torch.tensor([[padded[i] for i in order]]), torch.tensor([[shares[i] for i in order]])
        )
        expected = pair_sum(network, elements, fractions)
    assert float(energy[0]) == pytest.approx(expected, abs=2e-5)
    assert float(other[0]) == pytest.approx(expected, abs=2e-5)


def test_pure_elements_have_exactly_zero_energy_and_others_do_not() -> None:
    network = PairNetwork(SMALL)
    elements = torch.tensor([[5, -1], [5, 7], [7, -1]])
    fractions = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    with torch.no_grad():
        energy = network(elements, fractions)
    assert energy[[0, 2]].tolist() == [0, 0]
    assert energy[1] != 0


def test_members_start_differently_and_the_same_seed_gives_the_same_member() -> None:
    first, again, second = (PairNetwork(SMALL, seed=1, member=m) for m in (0, 0, 1))
    assert torch.equal(first.embedding, again.embedding)
    assert not torch.equal(first.embedding, second.embedding)


# Ensemble


def test_prediction_is_mean_and_calibrated_spread_of_the_members() -> None:
    members = [PairNetwork(SMALL, member=m) for m in range(3)]
    batch = Compositions.from_list(["NaCl", "Li2FeSiO4", "Na2Cl2"])
    energy, spread = Surrogate(members, floor=0.03, scale=1.5).predict(batch)
    elements, counts = to_actions(batch)
    fractions = counts / counts.sum(axis=1, keepdims=True)
    single = np.array([member_energies([m], elements, fractions)[0] for m in members])
    np.testing.assert_allclose(energy, single.mean(axis=0))
    np.testing.assert_allclose(spread, np.sqrt(0.03**2 + (1.5 * single.std(axis=0)) ** 2))
    assert energy[0] == pytest.approx(energy[2], abs=1e-6)  # the cell's size does not matter


def test_spread_fit_recovers_a_known_error_law() -> None:
    rng = np.random.default_rng(0)
    std = rng.uniform(0.005, 0.2, 20_000)
    values = std * np.array([[1.0], [-1.0]])  # two members with mean 0 and exactly this standard deviation
    energy = rng.normal(scale=np.hypot(0.02, 1.6 * std))
    floor, scale = fit_spread(values, energy)
    assert scale == pytest.approx(1.6, abs=0.15)
    inside = np.abs(energy) <= calibrated_spread(values, floor=floor, scale=scale)
    for rows in (std < 0.05, std > 0.15):
        assert inside[rows].mean() == pytest.approx(WITHIN_ONE, abs=0.03)


def test_file_round_trip_keeps_predictions_to_half_precision() -> None:
    members = [PairNetwork(SMALL, member=m) for m in range(2)]
    data = save_surrogate(members, SMALL, floor=0.01, scale=1.0, card={"seed": 4})
    back = read_surrogate(data)
    batch = Compositions.from_list(["NaCl", "MgAl2O4"])
    before = Surrogate(members, 0.01, 1.0).predict(batch)[0]
    np.testing.assert_allclose(back.predict(batch)[0], before, atol=5e-3)
    assert back.card == {"seed": 4}
    # a second round trip changes nothing: the stored weights are the weights
    again = read_surrogate(save_surrogate(back.members, SMALL, floor=0.01, scale=1.0, card={}))
    assert surrogate_hash(again) == surrogate_hash(back)
    assert surrogate_hash(
        read_surrogate(save_surrogate(members[::-1], SMALL, floor=0.01, scale=1.0, card={}))
    ) != (surrogate_hash(back))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a surrogate file"):
        read_surrogate(b"nonsense")
    good = save_surrogate([PairNetwork(SMALL)], SMALL, floor=0.0, scale=1.0, card={})
    with pytest.raises(InputError, match="another element vocabulary"):
        read_surrogate(good.replace(b"Li Be B", b"Li B Be"))
    with pytest.raises(MissingDependencyError, match="there is no surrogate"):
        load_surrogate(tmp_path / "none.safetensors")


# Training


def test_examples_are_the_reference_hull(examples: Examples, whole: Examples) -> None:
    reference = load_reference()
    row = reference.hull_formulas.index("MgAl2O4")
    found = np.flatnonzero(
        (whole.energy == reference.hull_formation_energy[row])
        & (np.sort(whole.elements, axis=1)[:, -3:] == sorted(INDEX[e] for e in ("Mg", "Al", "O"))).all(axis=1)
    )
    assert len(found) == 1
    assert sorted(whole.fractions[found[0]])[-3:] == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    np.testing.assert_allclose(examples.fractions.sum(axis=1), 1)
    assert set(examples.split) == {"train", "val", "test"}
    assert 0 < examples.neutral.sum() < len(examples)


def test_training_learns_and_beats_the_mean(examples: Examples) -> None:
    train, test = examples.of_split("train"), examples.of_split("test")
    trainer = Trainer(
        train, Settings(members=1, epochs=4, batch=128, learning_rate=5e-3), Sizes(16, 48, 1), data_hash="x"
    )
    losses = [trainer.run_epoch() for _ in range(4)]
    assert losses[-1] < 0.6 * losses[0]
    assert trainer.finished
    table = errors(trainer.done, test, floor=0.1, scale=0.0)
    baseline = np.median(np.abs(test.energy - np.median(train.energy)))
    assert table["all"]["median"] < 0.6 * baseline
    assert table["all"]["n"] == len(test)
    predicted = member_energies(trainer.done, test.elements, test.fractions)[0]
    assert table["k=2"]["mean"] == pytest.approx(
        np.abs(predicted - test.energy)[(test.elements >= 0).sum(axis=1) == 2].mean(), abs=1e-4
    )


def test_stopped_and_resumed_training_ends_in_the_same_weights(examples: Examples, tmp_path: Path) -> None:
    train = examples.of_split("val")
    how = Settings(members=2, epochs=2, batch=512)
    straight = Trainer(train, how, SMALL, data_hash="x")
    while not straight.finished:
        straight.run_epoch()
    interrupted = Trainer(train, how, SMALL, data_hash="x")
    while not interrupted.finished:
        interrupted.run_epoch()
        interrupted.save(tmp_path / "state")
        interrupted = Trainer(train, how, SMALL, data_hash="x")
        interrupted.restore(tmp_path / "state")
    for a, b in zip(straight.done, interrupted.done, strict=True):
        for name, tensor in a.state_dict().items():
            assert torch.equal(tensor, b.state_dict()[name]), name
    other = Trainer(train, Settings(members=2, epochs=3, batch=512), SMALL, data_hash="x")
    with pytest.raises(InputError, match="other settings or data"):
        other.restore(tmp_path / "state")


def test_training_command_stops_in_time_goes_on_and_writes_its_card(tmp_path: Path) -> None:
    out = tmp_path / "s.safetensors"
    how = Settings(members=2, epochs=2, batch=256)
    small = Small(slice(0, 6000))
    assert train_surrogate(small, out, settings=how, sizes=SMALL, time_limit=0) is None  # type: ignore[arg-type]
    assert not out.exists()
    epochs: list[int] = []
    card = train_surrogate(
        small,  # type: ignore[arg-type]
        out,
        settings=how,
        sizes=SMALL,
        on_epoch=lambda done, _total, _loss: epochs.append(done),
        command="test",
    )
    assert card is not None
    assert epochs == [1, 2, 3, 4]
    assert json.loads(out.with_suffix(".json").read_text()) == card
    assert card["errors"]["all"]["n"] + card["training_formulas"] < 6000
    assert not out.with_suffix(".training").exists()
    assert load_surrogate(out).card == card


def test_learning_rate_warms_up_and_falls_to_zero() -> None:
    assert learning_rate(0, 1.0) == 0
    assert learning_rate(0.02, 1.0) == pytest.approx(1.0, abs=2e-3)
    assert learning_rate(0.5, 1.0) == pytest.approx(0.5)
    assert learning_rate(1.0, 1.0) == pytest.approx(0.0)


# What ships


def test_shipped_surrogate_has_the_errors_its_card_states(whole: Examples) -> None:
    surrogate = load_surrogate()
    small = every(whole.of_split("test"), 5)
    measured = errors(surrogate.members, small, floor=surrogate.floor, scale=surrogate.scale)
    stated = surrogate.card["errors"]
    assert measured["all"]["median"] == pytest.approx(stated["all"]["median"], rel=0.1)
    assert measured["neutral"]["within_1_spread"] == pytest.approx(WITHIN_ONE, abs=0.06)
    assert stated["all"]["median"] < 0.046  # what a single small network reached in minutes


def test_command_shows_the_shipped_surrogate() -> None:
    result = CliRunner().invoke(app, ["surrogate", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["errors"]["all"]["n"] > 30_000

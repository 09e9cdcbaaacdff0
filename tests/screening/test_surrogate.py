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

from anchor.arrays import pack_strings, unpack_strings
from anchor.chemistry.composition import Compositions, parse_formula
from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.cli.policy import app
from anchor.errors import InputError, MissingDependencyError
from anchor.policy.actions import to_actions
from anchor.reference.reference import load_reference
from anchor.screening.surrogate import (
    SHIPPED,
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
    dataset_hash,
    errors,
    fit_spread,
    learning_rate,
    masked_loss,
    train_surrogate,
)

SMALL = Sizes(embedding=6, width=10, layers=1)
FLOOR, SCALE = (0.01, 0.02), (1.0, 1.2)


@pytest.fixture(scope="module")
def whole() -> Examples:
    """All bundled formulas."""
    return Examples.of(load_reference())


@pytest.fixture(scope="module")
def examples(whole: Examples) -> Examples:
    """A twentieth of them, test ones included."""
    return every(whole, 20)


def every(examples: Examples, nth: int) -> Examples:
    return examples[::nth]


class Small:
    """A reference of few formulas, so that the whole training runs in seconds."""

    def __init__(self, rows: slice) -> None:
        whole = load_reference()
        names = unpack_strings(whole.mp_hull["formulas"])[rows]
        self.mp_hull = {name: array[rows] for name, array in whole.mp_hull.items()}
        self.mp_hull["formulas"] = pack_strings(names)
        self.hash = whole.hash
        self.hull_numbers, self.hull_counts = whole.hull_numbers[rows], whole.hull_counts[rows]
        self.hull_formation_energy = whole.hull_formation_energy[rows]
        self.hull_formulas = whole.hull_formulas[rows]


# Network


def pair_sum(network: PairNetwork, elements: list[int], fractions: list[float]) -> torch.Tensor:
    """E(c) of both databases pair by pair with plain loops, as the docstring of the network states it."""
    embedding = network.embedding
    mean = sum((x * embedding[e] for e, x in zip(elements, fractions, strict=True)), start=embedding[0] * 0)
    total = torch.zeros(2)
    for (i, x), (j, y) in itertools.combinations(zip(elements, fractions, strict=True), 2):
        h = network.both(embedding[i]) + network.both(embedding[j])
        h = h + (x - y) * (network.difference(embedding[i]) - network.difference(embedding[j]))
        h = h + network.others(mean) + network.amounts(torch.tensor([x + y, x * y, (x - y) ** 2]))
        h = torch.nn.functional.silu(h)
        for layer in network.hidden:
            h = h + torch.nn.functional.silu(layer(h))
        total = total + 4 * x * y * network.last(h)
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
    assert energy[0].tolist() == pytest.approx(expected.tolist(), abs=2e-5)
    assert other[0].tolist() == pytest.approx(expected.tolist(), abs=2e-5)


def test_pure_elements_have_exactly_zero_energy_and_others_do_not() -> None:
    network = PairNetwork(SMALL)
    elements = torch.tensor([[5, -1], [5, 7], [7, -1]])
    fractions = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    with torch.no_grad():
        energy = network(elements, fractions)
    assert energy[[0, 2]].tolist() == [[0, 0], [0, 0]]
    assert (energy[1] != 0).all()


def test_members_start_differently_and_the_same_seed_gives_the_same_member() -> None:
    first, again, second = (PairNetwork(SMALL, seed=1, member=m) for m in (0, 0, 1))
    assert torch.equal(first.embedding, again.embedding)
    assert not torch.equal(first.embedding, second.embedding)


# Ensemble


def test_prediction_is_mean_and_calibrated_spread_of_the_members() -> None:
    members = [PairNetwork(SMALL, member=m) for m in range(3)]
    batch = Compositions.from_list(["NaCl", "Li2FeSiO4", "Na2Cl2"])
    energy, spread = Surrogate(members, floor=(0.03, 0.05), scale=(1.5, 2.0)).predict(batch)
    elements, counts = to_actions(batch)
    fractions = counts / counts.sum(axis=1, keepdims=True)
    single = np.array([member_energies([m], elements, fractions)[0] for m in members])
    np.testing.assert_allclose(energy, single.mean(axis=0))
    assert energy.shape == (3, 2)
    np.testing.assert_allclose(spread[:, 0], np.sqrt(0.03**2 + (1.5 * single.std(axis=0)[:, 0]) ** 2))
    np.testing.assert_allclose(spread[:, 1], np.sqrt(0.05**2 + (2.0 * single.std(axis=0)[:, 1]) ** 2))
    np.testing.assert_allclose(energy[0], energy[2], atol=1e-6)  # the cell's size does not matter


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
    data = save_surrogate(members, SMALL, floor=FLOOR, scale=SCALE, card={"seed": 4})
    back = read_surrogate(data)
    batch = Compositions.from_list(["NaCl", "MgAl2O4"])
    before = Surrogate(members, FLOOR, SCALE).predict(batch)[0]
    np.testing.assert_allclose(back.predict(batch)[0], before, atol=5e-3)
    assert back.card == {"seed": 4}
    # a second round trip changes nothing: the stored weights are the weights
    again = read_surrogate(save_surrogate(back.members, SMALL, floor=FLOOR, scale=SCALE, card={}))
    assert surrogate_hash(again) == surrogate_hash(back)
    assert surrogate_hash(
        read_surrogate(save_surrogate(members[::-1], SMALL, floor=FLOOR, scale=SCALE, card={}))
    ) != (surrogate_hash(back))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a surrogate file"):
        read_surrogate(b"nonsense")
    good = save_surrogate([PairNetwork(SMALL)], SMALL, floor=FLOOR, scale=SCALE, card={})
    with pytest.raises(InputError, match="format 'anchor-surrogate-1'"):
        read_surrogate(good.replace(b"anchor-surrogate-2", b"anchor-surrogate-1"))
    with pytest.raises(InputError, match="another element vocabulary"):
        read_surrogate(good.replace(b"Li Be B", b"Li B Be"))
    with pytest.raises(MissingDependencyError, match="there is no surrogate"):
        load_surrogate(tmp_path / "none.safetensors")


# Training


def test_examples_are_both_databases_by_formula(examples: Examples, whole: Examples) -> None:
    reference = load_reference()
    listed = {
        "oqmd": dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True)),
        "mp": reference.mp_hull_energy,
    }
    only_mp = next(f for f in listed["mp"] if f not in listed["oqmd"])
    only_oqmd = next(f for f in listed["oqmd"] if f not in listed["mp"])
    for formula in ("MgAl2O4", only_mp, only_oqmd):
        cell = parse_formula(formula)
        indices = sorted(INDEX[e] for e in cell.elements)
        k, last = len(indices), np.sort(whole.elements, axis=1)
        counts = np.sort(whole.counts, axis=1)
        found = np.flatnonzero(
            (whole.k == k)
            & (last[:, -k:] == indices).all(axis=1)
            & (counts[:, -k:] == sorted(cell.counts)).all(axis=1)
        )
        energies = [[listed[name].get(formula, np.nan) for name in ("oqmd", "mp")]]
        same = np.isclose(whole.energy[found], energies, atol=1e-6, equal_nan=True).all(axis=1)
        assert same.sum() == 1, formula
    assert len(whole.of_database("mp")) == len(listed["mp"])
    np.testing.assert_allclose(examples.fractions.sum(axis=1), 1)
    assert set(examples.split) == {"train", "val", "test"}
    assert 0 < examples.neutral.sum() < len(examples)


def test_loss_is_over_the_energies_that_are_there() -> None:
    predicted = torch.tensor([[0.1, 0.3], [0.2, 7.0], [5.0, 0.0]], requires_grad=True)
    nan = float("nan")
    energy = torch.tensor([[0.12, 0.2], [0.2, nan], [nan, 0.01]])
    loss = masked_loss(predicted, energy, beyond=0.05)
    # Huber: e²/2 within 0.05, 0.05 (|e| − 0.025) beyond; divided by 0.05
    expected = [0.02**2 / 2 / 0.05, 0.1 - 0.025, 0.0, 0.01**2 / 2 / 0.05]
    assert float(loss.detach()) == pytest.approx(sum(expected) / 4, abs=1e-6)
    loss.backward()
    assert predicted.grad is not None
    assert predicted.grad[1, 1] == predicted.grad[2, 0] == 0
    assert (predicted.grad[0] != 0).all()


def test_a_database_without_energies_leaves_its_output_alone(examples: Examples) -> None:
    only = examples.of_split("val").of_database("oqmd")[:300]
    energy = only.energy.copy()
    energy[:, 1] = np.nan
    blind = Examples(only.elements, only.fractions, energy, only.counts, only.split)
    trainer = Trainer(blind, Settings(members=1, epochs=2, batch=64), SMALL, data_hash="x")
    before = trainer.network.last.weight.detach().clone()
    trainer.run_epoch()
    after = trainer.network.last.weight.detach()
    assert torch.equal(before[1], after[1])
    assert not torch.equal(before[0], after[0])


def test_training_learns_and_beats_the_mean(examples: Examples) -> None:
    train, test = examples.of_split("train"), examples.of_split("test")
    trainer = Trainer(
        train, Settings(members=1, epochs=4, batch=128, learning_rate=5e-3), Sizes(16, 48, 1), data_hash="x"
    )
    losses = [trainer.run_epoch() for _ in range(4)]
    assert losses[-1] < 0.6 * losses[0]
    assert trainer.finished
    table = errors(trainer.done, test, floor=(0.1, 0.1), scale=(0.0, 0.0))
    for i, name in enumerate(("oqmd", "mp")):
        listed = test.of_database(name)
        baseline = np.median(np.abs(listed.energy[:, i] - np.nanmedian(train.energy[:, i])))
        assert table[name]["all"]["median"] < 0.6 * baseline
        assert table[name]["all"]["n"] == len(listed) < len(test)
        predicted = member_energies(trainer.done, listed.elements, listed.fractions)[0, :, i]
        assert table[name]["k=2"]["mean"] == pytest.approx(
            np.abs(predicted - listed.energy[:, i])[listed.k == 2].mean(), abs=1e-4
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
    assert card["errors"]["oqmd"]["all"]["n"] + card["training_formulas"]["oqmd"] < 6000
    assert card["training_formulas"]["all"] > card["training_formulas"]["oqmd"]
    assert card["hash"] == surrogate_hash(load_surrogate(out))
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
    for name in ("oqmd", "mp"):
        stated = surrogate.card["errors"][name]
        assert measured[name]["all"]["median"] == pytest.approx(stated["all"]["median"], rel=0.1)
        assert measured[name]["neutral"]["within_1_spread"] == pytest.approx(WITHIN_ONE, abs=0.06)
        assert stated["all"]["median"] < 0.06


def test_shipped_card_is_of_the_shipped_weights_and_of_the_bundled_energies() -> None:
    surrogate = load_surrogate()
    assert json.loads(SHIPPED.with_suffix(".json").read_text()) == surrogate.card
    assert surrogate.card["hash"] == surrogate_hash(surrogate)
    assert surrogate.card["data_hash"] == dataset_hash(load_reference())


def test_command_shows_the_shipped_surrogate() -> None:
    result = CliRunner().invoke(app, ["surrogate", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["errors"]["oqmd"]["all"]["n"] > 30_000

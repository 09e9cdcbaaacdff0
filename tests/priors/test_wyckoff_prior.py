"""The network, the beam search and the prior: probabilities, exact atoms, learning, commands."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from anchor.chemistry.elements import SYMBOLS
from anchor.cli.main import app
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.models.base import Recipe
from anchor.models.data import reference_split
from anchor.models.run import Plan, Rhythm
from anchor.models.training import Trainer
from anchor.models.wyckoff.counting import can_finish
from anchor.models.wyckoff.data import encoded_set, to_sequences
from anchor.models.wyckoff.model import Wyckoff, WyckoffSettings
from anchor.models.wyckoff.network import BINS, WyckoffNet, WyckoffSize
from anchor.models.wyckoff.sampler import PEAK, Writer, _coordinate
from anchor.models.wyckoff.tables import tables
from anchor.priors import load_prior
from anchor.priors.learned import prior_of
from anchor.priors.match_rate import cell_of, displacement
from anchor.priors.training import Matches, train
from anchor.priors.wyckoff import WyckoffPrior

TINY = WyckoffSize(width=48, layers=2, heads=4, dropout=0.0, cells=2)


@pytest.fixture(scope="module")
def eight() -> Crystals:
    train = reference_split("train")
    small = np.flatnonzero((train.counts >= 4) & (train.counts <= 12))
    return train[small[:: len(small) // 8][:8]]


@pytest.fixture(scope="module")
def learned(eight) -> Wyckoff:
    """A tiny model that has seen eight crystals only, many times."""
    torch.manual_seed(0)
    model = Wyckoff(WyckoffSettings(size=TINY, beam=6))
    data = model.training_set(eight)
    model.fit_statistics(data.crystals)
    recipe = Recipe(optimiser="adamw", learning_rate=5e-3, batch_size=8, ema=0.9, warmup=10)
    trainer = Trainer(model, data, recipe, precision="fp32")
    first = trainer.advance()["loss"]
    for _ in range(250):
        last = trainer.advance()["loss"]
    assert last < 0.5 * first
    with trainer.averaged() as averaged:
        weights = {name: t.clone() for name, t in averaged.state_dict().items()}
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def prior(learned) -> WyckoffPrior:
    made = prior_of(learned, elements=frozenset(range(1, 95)))
    assert isinstance(made, WyckoffPrior)
    return made


def test_crystals_learned_by_heart_are_the_best_guess(prior, eight):
    made = prior.sample([cell_of(crystal) for crystal in eight])
    assert sum(displacement(made[i], eight[i]) < 0.1 for i in range(8)) >= 7


def test_atoms_are_exact_for_any_composition(prior):
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.dictionaries(st.integers(1, 94), st.integers(1, 6), min_size=1, max_size=4).filter(
            lambda counts: sum(counts.values()) <= 20
        )
    )
    def check(counts):
        made = prior.sample([{SYMBOLS[z]: n for z, n in counts.items()}], 2)
        for crystal in made:
            numbers, found = np.unique(crystal.numbers, return_counts=True)
            assert dict(zip(numbers.tolist(), found.tolist(), strict=True)) == counts
            assert np.isfinite(crystal.frac).all()
            assert crystal.volume[0] > 1.0

    check()


def test_draws_are_ranked_different_and_do_not_depend_on_the_batch(prior, eight):
    cells = [cell_of(crystal) for crystal in eight[:3]]
    together = prior.sample(cells, 8, seed=5)
    alone = prior.sample(cells[:1], 9, seed=5)
    for i in range(8):  # six of the beam, then random ones
        np.testing.assert_allclose(together[i].frac, alone[i].frac, atol=1e-4)
        np.testing.assert_allclose(together[i].lattice, alone[i].lattice, rtol=1e-4)
    unfamiliar = [{"Ti": 3, "O": 5}]
    one, other = (prior.sample(unfamiliar, 9, seed=seed) for seed in (5, 6))
    np.testing.assert_allclose(
        one[0].lattice, other[0].lattice, rtol=1e-6
    )  # the best guess has no chance in it
    assert any(not np.allclose(one[i].lattice, other[i].lattice) for i in (6, 7, 8))


def test_log_probabilities_of_the_beam_are_those_of_the_loss(learned, eight):
    _, encoded = encoded_set(eight)
    writer = learned.writer()
    drafts = [beam[0] for beam in writer.best([one.counts for one in encoded], width=6)]
    written = learned.described(writer, drafts)
    sequences = to_sequences(written, np.zeros((len(written), 6)))
    net, known = learned.network, tables()
    features = net.position_features()
    hidden = net.hidden(sequences, features)
    for i, draft in enumerate(drafts):
        one = hidden[i]
        mask = torch.from_numpy(np.array([can_hold(draft, g) for g in range(1, 231)]))
        log_p = net.group_head(one[0]).masked_fill(~mask, -torch.inf).log_softmax(-1)[draft.group - 1].item()
        partial = writer_states(draft)
        for j, orbit in enumerate(draft.orbits):
            logits = net.position_logits(one[None, None, j + 1], sequences.group[i : i + 1], features)[0, 0]
            possible = torch.from_numpy(partial[j].possible())
            log_p += logits.masked_fill(~possible, -torch.inf).log_softmax(-1)[orbit.position].item()
            row = known.first[draft.group - 1] + orbit.position
            for axis, value in enumerate(orbit.free):
                scores = net.free_logits(
                    one[None, j + 1], features[row][None], sequences.free[i : i + 1, j], axis
                )
                share = scores.softmax(-1)[0].double().numpy()
                top = round(value * BINS) % BINS
                near = share[(top + np.arange(-PEAK - 1, PEAK + 2)) % BINS].sum()
                far = share[(top + np.arange(-PEAK + 1, PEAK)) % BINS].sum()
                log_p += math.log((near + far) / 2)  # the peak's middle is within a bin of the coordinate
        assert draft.log_p == pytest.approx(log_p, abs=0.1)


def can_hold(draft, group: int) -> bool:
    return can_finish(group, (), draft.counts)


def writer_states(draft):
    """The draft before each of its orbits."""
    state = replace(draft, left=draft.counts, orbits=())
    states = []
    for orbit in draft.orbits:
        states.append(state)
        state = state.with_orbit(orbit, 0.0)
    return states


def test_later_choices_and_padding_change_nothing_before(eight):
    torch.manual_seed(1)
    net = WyckoffNet(TINY).eval()
    _, encoded = encoded_set(eight)
    long = max(encoded, key=lambda one: len(one.orbits))
    short = min(encoded, key=lambda one: len(one.orbits))
    features = net.position_features()
    both = net.hidden(to_sequences([short, long], np.zeros((2, 6))), features)
    alone = net.hidden(to_sequences([short], np.zeros((1, 6))), features)
    steps = len(short.orbits) + 2
    torch.testing.assert_close(both[:1, :steps], alone[:, :steps], atol=1e-5, rtol=1e-4)
    changed = to_sequences([long], np.zeros((1, 6)))
    changed.free[:, -1] = 0.3
    before = net.hidden(to_sequences([long], np.zeros((1, 6))), features)
    after = net.hidden(changed, features)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_coordinates_are_the_middle_of_a_peak():
    bins = np.arange(BINS)
    for centre in (0.25, 0.0, 0.9971, 0.5):
        gap = bins / BINS - centre
        gap -= np.rint(gap)
        share = np.exp(-0.5 * (gap * BINS / 0.8) ** 2)
        share /= share.sum()
        value, mass = _coordinate(share, int(np.argmax(share)))
        assert abs((value - centre + 0.5) % 1 - 0.5) < 1e-3
        assert mass == pytest.approx(1.0, abs=1e-6)


def test_random_crystals_follow_their_own_numbers(learned, eight):
    writer = Writer(learned.network)
    counts = [
        dict(zip(*(x.tolist() for x in np.unique(c.numbers, return_counts=True)), strict=True)) for c in eight
    ]
    rngs = [[np.random.default_rng(i) for i in range(8)] for _ in range(2)]
    assert writer.random(counts, rngs[0]) == writer.random(counts, rngs[1])
    assert writer.random([], []) == []


def test_training_resumes_to_the_bit(tmp_path):
    rhythm, matches = Rhythm(validate=1e9), Matches(0, test=0)
    plan = Plan("wyckoff", steps=6, max_atoms=3, recipe=(("batch_size", 8),))
    train(plan, tmp_path / "whole", rhythm=rhythm, matches=matches)
    train(replace(plan, steps=3), tmp_path / "parts", rhythm=rhythm, matches=matches)
    train(plan, tmp_path / "parts", rhythm=rhythm, matches=matches, resume=True)
    whole, parts = ((tmp_path / name / "wyckoff.safetensors") for name in ("whole", "parts"))
    a, b = load_prior(str(whole)), load_prior(str(parts))
    for (name, x), (_, y) in zip(a.model.state_dict().items(), b.model.state_dict().items(), strict=True):
        assert torch.equal(x, y), name
    shown = CliRunner().invoke(app, ["prior", "sample", "NaCl", "-n", "2", "--prior", str(whole), "--json"])
    assert shown.exit_code == 0, shown.output
    assert len(json.loads(shown.stdout)["crystals"]) == 2


def test_settings_without_meaning_are_refused(learned):
    with pytest.raises(InputError, match="no sampler steps"):
        prior_of(learned, elements=frozenset({11, 17}), steps=10)

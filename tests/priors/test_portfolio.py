"""The portfolio prior: who proposes what, and that energies choose."""

import numpy as np
import pytest
import torch

from anchor.errors import InputError
from anchor.outcomes.judge import Judge, Relaxing
from anchor.potentials import load_potential
from anchor.priors import load_prior
from anchor.priors.portfolio import SETTINGS, Portfolio, load
from anchor.relax.parallel import Relaxer


@pytest.fixture(scope="module")
def cheap() -> Portfolio:
    return load(setting="cheap")


def test_every_setting_begins_with_templates_and_ends_with_one() -> None:
    for setting in SETTINGS.values():
        assert setting.members[0] == "t"
        assert setting.rounds[-1][1] == 1
        assert [keep for _, keep in setting.rounds] == sorted((k for _, k in setting.rounds), reverse=True)


def test_draws_are_the_members_own(cheap: Portfolio) -> None:
    formulas = ["Cs2AgBiBr6", "LiCoPSe"]
    made = cheap.realise(formulas, cheap.proposals, seed=5)
    templates = load_prior("templates-all").realise(formulas, 2, seed=5)
    for item in (0, 1):
        own = made.of([item], cheap.proposals)
        first = next(iter(own.crystals))
        np.testing.assert_array_equal(first.frac, next(iter(templates.of([item], 2).crystals)).frac)
    names = dict(zip(made.request.tolist(), made.made_by, strict=True))
    for request, name in names.items():
        letter, _ = cheap.proposer(request % cheap.proposals)
        assert name == {"t": "templates-all", "m": "merged-all"}[letter]
    assert [cheap.proposer(d)[1] for d in range(len(cheap.setting.members))] == [
        cheap.setting.members[:d].count(cheap.setting.members[d]) for d in range(len(cheap.setting.members))
    ]
    letter, again = cheap.proposer(cheap.proposals)
    assert (letter, again) == ("t", cheap.setting.members.count("t"))


def test_members_without_an_answer_leave_a_gap(cheap: Portfolio) -> None:
    made = cheap.realise("NaCl", cheap.proposals)
    assert set(made.made_by) == {"templates-all"}
    assert len(made.missing) == cheap.setting.members.count("m")


def test_settings_have_names_and_hashes(cheap: Portfolio) -> None:
    assert load_prior("portfolio:cheap").hash == cheap.hash
    assert load(setting="cheap", split="train").hash != cheap.hash
    with pytest.raises(InputError, match="no portfolio 'chaep'"):
        load(setting="chaep")
    with pytest.raises(InputError, match="no split 'test'"):
        load(split="test")  # type: ignore[arg-type]


def test_templates_win_where_nobody_is_lower(cheap: Portfolio) -> None:
    torch.set_num_threads(1)
    judge = Judge(Relaxer(load_potential("mattersim-1m")), None, Relaxing(True, 60, 0.05))
    made = cheap.realise(["NaCl", "BaTiO3", "Cs2AgBiBr6"], cheap.proposals, seed=1)
    owner = made.request // cheap.proposals
    energy = judge.relaxed([made.crystals])[0].numbers("energy_ev") / made.crystals.counts
    found = judge.contest(made.crystals, owner, cheap.rounds)
    for i, index in enumerate(found.index.tolist()):
        mine = np.flatnonzero(owner == i)
        assert energy[index] <= energy[mine].min() + 0.02  # the lowest after full relaxation, or nearly
        if made.made_by[mine[energy[mine].argmin()]] == "templates-all":
            assert made.made_by[index] == "templates-all"

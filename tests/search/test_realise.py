"""From compositions to scored crystals: whose fault an outcome is, and what is not computed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from anchor.chemistry.composition import Compositions
from anchor.clock import Clock
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.priors import Prior
from anchor.priors.base import Sampled
from anchor.relax.parallel import Relaxer
from anchor.reward.score import Memory
from anchor.search.environment import Environment
from anchor.search.realise import Realised, Realiser
from anchor.search.rows import candidate_rows

CELLS = ["Na2Cl2", "Mg2O2", "Na3Cl", "MgF2", "Na2O"]  # the third is not neutral


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment.load(load_config(overrides=["relax.max_steps=2", "run.workers=1"]).config)


def realise(
    environment: Environment,
    order: str = "fast",
    potential: Any = None,
    clock: Clock | None = None,
    **changes: Any,
) -> Realised:
    config = environment.realiser.config
    config = config.model_copy(update={"reward": config.reward.model_copy(update={"order": order})})
    judge = environment.judge
    if potential is not None:
        judge = replace(judge, relaxer=Relaxer(potential))
    realiser: Realiser = replace(environment.realiser, config=config, judge=judge, **changes)
    (group,) = realiser([Compositions.from_list(CELLS)], step=0, clock=clock)
    return group


def statuses(group: Realised) -> list[str]:
    return group.outcomes.texts("status")


def excluded(group: Realised) -> list[bool]:
    return [status == "not scored" for status in statuses(group)]


class Failing(torch.nn.Module):
    """A potential that raises for the crystals that `refuses`."""

    def __init__(self, potential: Any, error: Exception, refuses: Callable[[Any], bool]) -> None:
        super().__init__()
        self.potential, self.error, self.refuses = potential, error, refuses

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.potential, name)

    def forward(self, state: Any) -> Any:
        if self.refuses(state):
            raise self.error
        return self.potential(state)


def test_the_fast_order_makes_no_crystal_that_charges_forbid(environment: Environment) -> None:
    group = realise(environment)
    assert group.outcomes.at.tolist() == [0, 1, 3, 4]
    assert statuses(group)[2] == "not realised"
    assert not any(excluded(group))  # a known outcome: r_inv, not an exclusion
    whole = realise(environment, "paper")
    assert whole.outcomes.at.tolist() == [0, 1, 2, 3, 4]
    assert statuses(whole) == ["measured"] * 5


@pytest.mark.parametrize(("query", "whole_units"), [("cell", [2, 2]), ("reduced", [1, 1]), ("free", None)])
def test_what_the_prior_is_asked_for(
    environment: Environment, query: str, whole_units: list[int] | None
) -> None:
    config = environment.realiser.config
    config = config.model_copy(update={"prior": config.prior.model_copy(update={"query": query})})
    realiser = replace(environment.realiser, config=config)
    (group,) = realiser([Compositions.from_list(["Na2Cl2", "Mg2O2"])], step=0)
    assert group.generated.formulas == ["NaCl", "MgO"]
    units = (group.generated.counts // 2).tolist()
    assert units == whole_units if whole_units else all(1 <= u <= 10 for u in units)


def test_of_several_candidates_the_lowest_is_relaxed(environment: Environment) -> None:
    config = environment.realiser.config
    cells = Compositions.from_list(["Na2Cl2", "Ti2O4", "Mg2F4"])
    four = replace(
        environment.realiser,
        config=config.model_copy(update={"prior": config.prior.model_copy(update={"candidates": 4})}),
    )
    (group,) = four([cells], step=0)
    assert group.outcomes.at.tolist() == [0, 1, 2]
    made = environment.prior.sample(list(cells), 4, seed=config.run.seed, stream=("structure", 0, 0))
    energies = (environment.potential.evaluate(made).energy / made.counts).reshape(3, 4)
    chosen = environment.potential.evaluate(group.generated).energy / group.generated.counts
    np.testing.assert_allclose(chosen, energies.min(axis=1), atol=1e-4)
    assert (energies.min(axis=1) < energies[:, 0] - 1e-3).any()  # not always the first one


def test_time_is_measured_by_part(environment: Environment) -> None:
    seconds = Clock()
    realise(environment, clock=seconds)
    assert set(seconds) == {"prior", "relaxation", "potential", "hull", "scoring"}
    assert 0 < seconds["potential"] < seconds["relaxation"]


def has(number: int) -> Callable[[Any], bool]:
    return lambda state: bool((state.atomic_numbers == number).any())


def test_a_crystal_that_cannot_be_evaluated_is_invalid(environment: Environment) -> None:
    potential = Failing(environment.potential, ValueError("no such geometry"), has(8))
    group = realise(environment, potential=potential)
    assert statuses(group) == ["measured", "failed", "not realised", "measured", "failed"]
    assert "no such geometry" in group.outcomes.texts("reason")[1]
    assert group.outcomes.flags("valid").tolist() == [True, False, False, True, False]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),  # torch's words on a CPU
        MemoryError("none left"),
        OSError("gone"),
    ],
)
def test_a_fault_of_the_machine_excludes(environment: Environment, error: Exception) -> None:
    group = realise(environment, potential=Failing(environment.potential, error, has(12)))
    assert excluded(group) == [False, True, False, True, False]


def test_an_element_without_reference_excludes(environment: Environment) -> None:
    group = realise(environment, elements=environment.hull.elements - {11})
    assert excluded(group) == [True, False, True, False, True]
    assert group.outcomes.texts("reason")[0] == "no energy reference for Na"
    assert group.outcomes.at.tolist() == [1, 3]
    scores = environment.scorer.score(
        Compositions.from_list(CELLS), group.outcomes, group.embeddings, np.full(4, 0.25), Memory()
    )
    assert scores.include.tolist() == [False, True, False, True, False]
    assert np.isnan(scores.reward[0])


def test_a_potential_that_always_fails_stops_the_campaign(environment: Environment) -> None:
    potential = Failing(environment.potential, RuntimeError("driver is gone"), lambda _state: True)
    with pytest.raises(AnchorError, match=r"failed for all 4 crystals.*driver is gone") as error:
        realise(environment, potential=potential)
    assert "resumed" in str(error.value)


def test_crystals_that_were_proposed_need_no_prior(environment: Environment) -> None:
    """A generator proposes crystals; what cannot be scored is left out, and the prior is never asked."""

    class Silent(Prior):
        name, elements, max_atoms, hash = "silent", frozenset(range(1, 95)), 20, "0"

        def draw(self, _requests: Any) -> Crystals:
            raise AssertionError("the prior was asked")

    cells = Compositions.from_list(["Na2Cl2", "Na3Cl", "Mg2O2"])
    crystals = environment.prior.sample(list(cells), seed=0)
    realiser = replace(environment.realiser, prior=Silent())
    (group,) = realiser([cells], step=0, crystals=[crystals])
    assert statuses(group) == ["measured", "not realised", "measured"]
    np.testing.assert_array_equal(group.generated.frac, crystals[[0, 2]].frac)


def test_rows_say_who_made_a_crystal_and_who_had_none(environment: Environment) -> None:
    """A learned prior may fall back to another, or, with that switched off, have no answer."""
    templates = environment.prior

    class Tired(Prior):
        name, elements, max_atoms, hash = "tired", templates.elements, 20, "0"

        def draw(self, requests: Any) -> Sampled:
            made = templates.draw(requests)
            there = np.array([i for i, r in enumerate(requests) if r.composition.formula != "MgF2"])
            names = ["templates" if requests[i].composition.formula == "MgO" else "tired" for i in there]
            missing = {i: "no cell" for i in range(len(requests)) if i not in there}
            return Sampled(made[there], there, names, missing)

    group = realise(environment, prior=Tired())
    rows = list(group.outcomes.rows(["made_by", "status", "reason"]))
    assert [row["made_by"] for row in rows] == ["tired", "templates", None, None, "tired"]
    assert (rows[3]["status"], rows[3]["reason"]) == ("failed", "no cell")
    scores = environment.scorer.score(
        Compositions.from_list(CELLS), group.outcomes, group.embeddings, np.full(4, 0.25), Memory()
    )
    assert scores.reward[3] == -0.2
    found = list(candidate_rows(Compositions.from_list(CELLS), group, scores, own=()))
    assert [row["made_by"] for row in found] == ["tired", "templates", None, None, "tired"]

"""A campaign: the search loop around policy, environment, reward and ledger.

>>> from anchor import Campaign, load_config
>>> config = load_config(overrides=["run.structures=64"]).config
>>> Campaign.start(config, "runs/first").run()  # doctest: +SKIP

A step is a pure function of what the ledger holds, so a campaign that was killed and resumed writes the rows
of one that was not.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.formula import parse_amounts
from anchor.clock import Clock
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, Notice
from anchor.generators.learner import Generating
from anchor.hull.holes import in_words
from anchor.outcomes.checks import Checks
from anchor.outcomes.columns import ABOVE
from anchor.policy.grpo import Learner, Proposal, Proposer, Scores, group_advantages
from anchor.policy.network import CompositionPolicy
from anchor.policy.untrained import Untrained
from anchor.reward.novelty import History
from anchor.reward.score import GroupScores, Memory
from anchor.search.adaptive import Adaptive
from anchor.search.ahead import Ahead
from anchor.search.environment import Environment
from anchor.search.imagining import Imagining
from anchor.search.ledger import PRIOR, RECOVER, Ledger, decode_crystal
from anchor.search.policies import policy_file, read_policy
from anchor.search.prior_learner import PriorLearner
from anchor.search.realise import Realised
from anchor.search.rows import candidate_rows, plain
from anchor.search.screened import Screened

UNTRAINED_NEEDS = 10_000
"""Structures below which an untrained policy is no good start: 90 % are valid only after 4,000 of them, and
hardly any is within 0.1 eV/atom of the hulls before 10,000."""


@dataclass(frozen=True)
class StepReport:
    """What a step brought, for whoever watches.

    Attributes:
        step: From 0.
        structures: Compositions proposed so far.
        rows: The step's candidates as the ledger holds them.
        metrics: Learning metrics.
        seconds: Time by part, s; "potential" is the part of "relaxation" spent inside the potential.
    """

    step: int
    structures: int
    rows: list[dict[str, Any]]
    metrics: dict[str, float]
    seconds: dict[str, float]


class Campaign:
    """One search run. Make it with `start` or `resume`."""

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        environment: Environment,
        learner: Proposer[Any],
        prior_learner: PriorLearner | None = None,
    ) -> None:
        self.config = config
        self.ledger = ledger
        self.environment = environment
        self.learner = learner
        self.prior_learner = prior_learner
        if config.search.staleness and (prior_learner is not None or config.policy.source == "generator"):
            raise InputError(
                "whoever trains a prior or a generator hears the rewards of a step before the next",
                "leave out search.staleness",
            )
        self.memory = recall(ledger, config, environment.checks)
        self.next_step, self.structures = ledger.n_steps, ledger.n_candidates
        self._commit_seconds = 0.0
        self.ahead = Ahead(
            self._realise,
            environment.judge.relaxer.executor,
            config.search.staleness + 1,
            environment.threads,
        )

    @classmethod
    def start(
        cls,
        config: Config,
        out: str | Path,
        *,
        environment: Environment | None = None,
        on_part: Callable[[str], object] = lambda _part: None,
    ) -> Campaign:
        """A new campaign whose ledger is `out` (a folder, a .db file or a database URL).

        Args:
            on_part: Told what is loaded next.
        """
        environment = environment or Environment.load(config, on_part=on_part)
        on_part("what proposes")
        learner = _fresh_learner(config, environment)
        prior_learner = PriorLearner.start(environment.prior, config)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        ledger = Ledger.create(out, config.model_dump(mode="json"), environment.identity(), created)
        return cls(config, ledger, environment, learner, prior_learner)

    @classmethod
    def resume(
        cls,
        location: str | Path,
        *,
        environment: Environment | None = None,
        accept_changes: bool = False,
        where: Mapping[str, Any] | None = None,
    ) -> Campaign:
        """Go on with a stored campaign.

        Args:
            where: Values of `run` that say where the work is done from now on: executor, address, workers.

        Raises:
            AnchorError: Reference, prior, potential, hull or code are not those the campaign began with;
                `accept_changes` goes on all the same.
        """
        ledger = Ledger.open(location)
        with ledger.alone():  # another process that goes on with it is named before anything is loaded
            ledger.prepare()
        config = _elsewhere(Config.from_ledger(ledger.config), where or {})
        environment = environment or Environment.load(config)
        changes = _changes(ledger.identity, environment.identity())
        if changes and not accept_changes:
            raise AnchorError(
                f"the campaign '{location}' began with other parts: {'; '.join(changes)}",
                "bring them back, or go on with --accept-changes (numbers will not be comparable)",
            )
        state = ledger.state()
        if state is None and ledger.n_steps:
            raise AnchorError(
                f"the ledger of '{location}' is damaged: it has {ledger.n_steps} steps and no state", RECOVER
            )
        if not state:  # stopped before its first step, or nothing to remember
            learner: Proposer[Any] = _fresh_learner(config, environment, ledger=ledger)
        elif config.policy.source == "generator":
            learner = Generating.resume(config, environment.limits, state)
        elif config.policy.source == "imagined":
            learner = Imagining.resume(
                _first_policy(config), environment.limits, config, state, _outcomes(ledger)
            )
        else:
            learner = Learner.resume(config, environment.limits, state, updates=ledger.n_steps)
        prior_learner = PriorLearner.start(environment.prior, config)
        if prior_learner is not None and (trained := ledger.state(PRIOR)) is not None:
            prior_learner.restore(trained)
        return cls(config, ledger, environment, learner, prior_learner)

    def run(
        self,
        structures: int | None = None,
        *,
        on_step: Callable[[StepReport], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Take steps until the budget is used, or `stop()` says so after a step.

        Args:
            structures: Budget in compositions, those of earlier runs included; None: the config's.
            on_step: Called after every stored step.
            stop: Asked after every stored step.
        """
        budget = self.config.run.structures if structures is None else structures
        before = self.environment.prior.hash
        with self.ledger.alone():
            if self.ledger.n_steps != self.next_step:
                raise AnchorError(
                    f"another process went on from step {self.next_step}, to {self.ledger.n_steps}",
                    "resume the campaign again",
                )
            try:
                while self.structures < budget:
                    report = self.step(left=budget - self.structures)
                    if on_step is not None:
                        on_step(report)
                    if stop is not None and stop():
                        break
            finally:  # a step that is not stored was never made: whoever resumes proposes it again
                self.ahead.abandon()
                self.learner.forget()
        if self.prior_learner is None and self.environment.prior.hash != before:
            raise AnchorError(
                "the prior changed during the search", "this is a bug: a prior is frozen in a campaign"
            )

    def step(self, *, left: int | None = None) -> StepReport:
        """One step of Algorithm 1, stored before it returns.

        Args:
            left: Compositions left in the budget, for who can propose fewer than whole groups.
        """
        step = self.next_step
        if self.prior_learner is not None:
            self.prior_learner.begin(step)
        self._propose(left)
        proposal, clock, realised = self.ahead.first()
        with self.ahead.my_turn():
            with clock.part("scoring"):
                scored = [
                    self.environment.scorer.score(
                        compositions, group.outcomes, group.embeddings, context.weights, self.memory
                    )
                    for (compositions, context), group in zip(proposal.groups(), realised, strict=True)
                ]
            with clock.part("policy"):
                scores = [
                    Scores(f.reward, f.include, np.where(f.valid, group.outcomes.numbers(ABOVE), np.nan))
                    for f, group in zip(scored, realised, strict=True)
                ]
                metrics = self.learner.update(proposal, scores)
            if self.prior_learner is not None:
                with clock.part("prior training"):
                    metrics |= self.prior_learner.learn(realised, scored)
            return self._store(step, proposal, realised, scored, metrics, clock)

    def _propose(self, left: int | None) -> None:
        """As many steps as may be under way, while the budget lasts."""
        while len(self.ahead.steps) < self.ahead.most:
            remaining = None if left is None else left - self.ahead.structures
            if remaining is not None and remaining <= 0:
                return
            with self.ahead.my_turn():
                clock = Clock()
                with clock.part("policy"):
                    proposal = self.learner.rollout(self.next_step + len(self.ahead.steps), left=remaining)
            self.ahead.add(proposal, clock)

    def _realise(self, proposal: Proposal, clock: Clock) -> list[Realised]:
        groups = [compositions for compositions, _ in proposal.groups()]
        return self.environment.realiser(
            groups,
            step=proposal.step,
            crystals=proposal.crystal_groups(),
            visits=proposal.visit_groups(),
            clock=clock,
        )

    def _store(
        self,
        step: int,
        proposal: Proposal,
        realised: list[Realised],
        scored: list[GroupScores],
        metrics: dict[str, float],
        clock: Clock,
    ) -> StepReport:
        """One transaction of the ledger."""
        began = time.perf_counter()
        rows = self._rows(proposal, realised, scored)
        structures = self.structures + len(rows)
        contexts = [
            {"weights": c.weights.tolist(), "subgroup": np.flatnonzero(c.subgroup).tolist()}
            for c in proposal.contexts
        ]
        keep = (step + 1) % self.config.run.keep_policy_every == 0
        # A row cannot hold the time of its own commit: it holds that of the commit before it in this process.
        clock["database"] = time.perf_counter() - began + self._commit_seconds
        summary = {
            "step": step,
            "structures": structures,
            "contexts": contexts,
            "metrics": metrics,
            "seconds": dict(clock),
        }
        began = time.perf_counter()
        trained = None if self.prior_learner is None else self.prior_learner.changed()
        self.ledger.commit_step(summary, rows, self.learner.state(), keep=keep, prior=trained)
        self._commit_seconds = time.perf_counter() - began
        self.next_step, self.structures = step + 1, structures
        return StepReport(step, structures, rows, metrics, dict(clock))

    def _rows(
        self, proposal: Proposal, realised: list[Realised], scored: list[GroupScores]
    ) -> list[dict[str, Any]]:
        """The step's candidates, one row each, nothing left out."""
        rewards = np.stack([np.nan_to_num(s.reward) for s in scored])
        include = np.stack([s.include for s in scored])
        floor = self.config.grpo.advantage_std_floor
        advantage = np.where(include, group_advantages(rewards, include, std_floor=floor), np.nan)
        log_probs, known = proposal.log_probs, self.environment.reference.known
        knowledge = self.environment.knowledge
        rows: list[dict[str, Any]] = []
        for index, ((compositions, _), group, scores) in enumerate(
            zip(proposal.groups(), realised, scored, strict=True)
        ):
            own = self.config.reward.objectives
            for row in candidate_rows(compositions, group, scores, own=own):
                number = len(rows)
                elements = list(parse_amounts(row["formula"]))
                system = knowledge and knowledge.of(elements)
                row |= {
                    "id": self.structures + number,
                    "step": proposal.step,
                    "group_index": index,
                    "log_probs": {name: float(values[number]) for name, values in log_probs.items()},
                    "advantage": plain(advantage[index, row["member"]]),
                    "known_in": ",".join(sorted(known(row["formula"]))),
                    "phases_known": system and system.known,
                    "thin": system and system.thin,
                    "holes": knowledge and in_words(knowledge.deep_holes(elements)),
                }
                rows.append(row)
        return rows


def recall(ledger: Ledger, config: Config, checks: Checks) -> Memory:
    """Counts of a stored campaign's valid candidates; its history is read when a formula comes up again.

    A million crystals are not decoded and embedded for the few formulas that do.
    """
    counts, cap = Counter(ledger.valid_formulas()), config.novelty.history_cap

    def stored(formula: str) -> Sequence[NDArray[np.float64]]:
        """Embeddings of a formula's last valid candidates that the ledger has."""
        if not counts[formula]:
            return ()
        rows = ledger.last_relaxed(formula, cap)
        return list(checks.embed(Crystals.concatenate(map(decode_crystal, rows)), None))

    return Memory(history=History(cap=cap, recall=stored), counts=counts)


def _fresh_learner(
    config: Config, environment: Environment, *, ledger: Ledger | None = None
) -> Proposer[Any]:
    """Who proposes at the beginning, or goes on from the candidates of a ledger and needs no other state."""
    source = config.policy.source
    _tell_what_is_not_learned(config)
    if source == "screened":
        return Screened(environment.limits, config, 0 if ledger is None else ledger.n_candidates)
    if source == "adaptive":
        return Adaptive.resume(environment.limits, config, () if ledger is None else _outcomes(ledger))
    if source == "generator":
        return Generating.start(config, environment.limits)
    if source == "imagined":
        return Imagining.start(_first_policy(config), environment.limits, config)
    if source != "policy":
        return Untrained(source, environment.limits, config)
    return Learner.start(config, environment.limits, policy=_first_policy(config))


def _first_policy(config: Config) -> CompositionPolicy | None:
    """The policy that a search starts from; None: an untrained one."""
    start = config.policy.start_from
    return read_policy(policy_file(start)) if start is not None else None


def _outcomes(ledger: Ledger) -> Iterator[tuple[str, float]]:
    """Formula and energy above the hull of every candidate, as whoever learns from them heard them."""
    for row in ledger.rows(["formula", "valid", "included", ABOVE]):
        above = row[ABOVE] if row["valid"] and row[ABOVE] is not None else np.nan
        yield row["formula"], above if row["included"] else np.inf


def _elsewhere(config: Config, where: Mapping[str, Any]) -> Config:
    """The config with its work done somewhere else; processors of another kind would give other numbers."""
    run = config.run
    if bool(where.get("gpus", run.gpus)) != bool(run.gpus):
        kinds = ("GPUs", "CPUs") if run.gpus else ("CPUs", "GPUs")
        raise InputError(
            f"the campaign began on {kinds[0]}, and would go on on {kinds[1]}", "leave --gpus out"
        )
    if where.get("executor", "ray") != "ray":
        where = {"address": None, "labels": {}, **where}
    return config.model_copy(update={"run": run.model_copy(update=dict(where))})


def _tell_what_is_not_learned(config: Config) -> None:
    """Say what people may not expect of the source they chose."""
    source, budget = config.policy.source, config.run.structures
    if source != "policy" and config.reward.objectives:
        text = (
            f"own objectives are scored, but the source '{source}' does not learn them; "
            "--source policy does, and starts from the policy that ships"
        )
    elif source in ("policy", "imagined") and config.policy.start_from is None and budget < UNTRAINED_NEEDS:
        text = (
            f"the policy starts untrained, and {budget} structures teach it little but charge neutrality; "
            "policy.start_from=default (or the preset 'learn') starts from the policy that ships"
        )
    else:
        return
    warnings.warn(text, Notice, stacklevel=4)


def _changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between two identities, for people. Package versions are recorded, not compared."""
    names = ["reference", "prior", "potential", "hull", "threads", "code"]
    names += [name for name in ("second potential", "second hull") if name in now]
    return [
        f"{name} was {_short(then[name])}, is {_short(now[name])}"
        for name in names
        if then[name] != now[name]
    ]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['name']} ({value['hash'][:12]})"
    return str(value)[:12]

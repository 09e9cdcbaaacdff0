"""Everything frozen that a campaign uses: reference, prior, potential, hull, reward and limits."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata as packages
from typing import Any, TypeGuard

import numpy as np
import torch

import anchor
from anchor.chemistry.elements import SYMBOLS, VOCABULARY
from anchor.config import Config
from anchor.config import Prior as PriorSettings
from anchor.crystals.rdf import N_BINS, R_MAX
from anchor.errors import InputError
from anchor.executors import Inline, Turns, Workplace
from anchor.hull.alex_mp import AlexMPHull, load_alex_mp
from anchor.hull.holes import Knowledge, load_knowledge
from anchor.hull.references import load_hull
from anchor.matching.flags import StructureFlags
from anchor.models.kldm import PUBLISHED_NOISE, Kldm
from anchor.outcomes.checks import Checks
from anchor.outcomes.judge import Judge, Relaxing, SearchHull
from anchor.outcomes.second import SecondOpinion
from anchor.policy.constraints import Limits
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.priors import Prior, is_learned, load_prior
from anchor.priors.learned import LearnedPrior, set_noise
from anchor.reference.index import RdfIndex
from anchor.reference.reference import Reference, load_reference
from anchor.relax.parallel import Relaxer
from anchor.reward.objectives import Objective, load_objective, try_objective
from anchor.reward.score import GroupScorer
from anchor.search.identity import code_hash
from anchor.search.realise import Realiser


@dataclass(frozen=True)
class Environment:
    """Everything frozen that a campaign uses, loaded once."""

    reference: Reference
    prior: Prior
    judge: Judge
    hull: SearchHull
    realiser: Realiser
    scorer: GroupScorer
    limits: Limits
    threads: int

    @property
    def potential(self) -> Potential:
        return self.judge.potential

    @property
    def knowledge(self) -> Knowledge | None:
        """What the databases of the hull know about chemical systems; None of a hull of somebody else."""
        return None if isinstance(self.hull, AlexMPHull) else load_knowledge()

    @property
    def checks(self) -> Checks:
        assert self.judge.checks is not None, "a campaign's judge has a gate"
        return self.judge.checks

    @classmethod
    def load(
        cls,
        config: Config,
        *,
        potential: Potential | None = None,
        prior: Prior | None = None,
        on_part: Callable[[str], object] = lambda _part: None,
    ) -> Environment:
        """Load what the config names; threads are pinned because they change floating-point sums."""
        on_part(f"reference, {config.relax.potential}")
        run = config.run
        where = Workplace(run.executor, run.workers, run.address, run.gpus, run.labels)
        if potential is not None:  # it has no name to load it by in another process
            where = Workplace("inline")
        threads = config.run.threads or 1
        torch.set_num_threads(threads)
        reference = load_reference()
        objectives = load_objectives(
            config, reference
        )  # what cannot work is refused before the rest is loaded
        potential = potential or load_potential(config.relax.potential, device=config.run.device)
        on_part(f"prior {config.prior.name}")
        prior = prior or load_configured_prior(config.prior, device=config.run.device)
        on_part("hulls")
        hull = load_campaign_hull(config, potential)
        searchable = None if config.action_space.allow_loose_references else hull.searchable_elements
        limits = Limits.from_config(config.action_space, searchable=searchable)
        settings = config.relax.model_dump(exclude={"potential", "second", "caution"})
        checks = Checks.from_config(config, reference)
        executor = where.open(threads=threads)
        if config.search.staleness and not isinstance(executor, Inline):
            executor = Turns(executor)
        relaxer = Relaxer(potential, executor=executor)
        judge = Judge(relaxer, hull, Relaxing(**settings), checks, load_second(config, relaxer))
        realiser = Realiser(prior, judge, hull.elements, config)
        scorer = make_scorer(config, reference, checks, objectives)
        return cls(reference, prior, judge, hull, realiser, scorer, limits, threads)

    def identity(self) -> dict[str, Any]:
        """What decides a campaign's numbers beside its config."""
        return {
            "anchor": anchor.__version__,
            "code": code_hash(),
            "reference": self.reference.hash,
            "prior": {"name": self.prior.name, "hash": self.prior.hash},
            "potential": {"name": self.potential.name, "hash": self.potential.checkpoint_hash},
            "hull": self.hull.identity.hash,
            **self._second_identity(),
            "elements": [VOCABULARY[i] for i in np.flatnonzero(self.limits.allowed.numpy())],
            "threads": self.threads,
            "python": platform.python_version(),
            "packages": {
                name: packages.version(name) for name in ("torch", "numpy", "pymatgen", "ase", "spglib")
            },
        }

    def _second_identity(self) -> dict[str, Any]:
        if (second := self.judge.second) is None:
            return {}
        potential = second.relaxer.potential
        return {
            "second potential": {"name": potential.name, "hash": potential.checkpoint_hash},
            "second hull": second.hull.identity.hash,
        }


def load_second(config: Config, relaxer: Relaxer) -> SecondOpinion | None:
    """The second potential that a config names, working with the first one's processes.

    Raises:
        InputError: It is the first one, or the hull is nobody's of ours.
    """
    if (name := config.relax.second) is None:
        return None
    if name == relaxer.potential.name:
        raise InputError(
            f"relax.second is the training potential itself ({name})", "name another: anchor potentials list"
        )
    if config.hull.kind == "alex-mp":
        raise InputError(
            "relax.second needs a hull that is calibrated for it; alex-mp is not", "leave out hull.kind"
        )
    potential = load_potential(name, device=config.run.device)
    return SecondOpinion(
        Relaxer(potential, executor=relaxer.executor),
        load_hull(potential, config.hull.kind),
        config.relax.caution,
    )


def load_configured_prior(settings: PriorSettings, *, device: str) -> Prior:
    """The prior that settings name; kldm samples with its published noise where rewards train it."""
    options: dict[str, Any] = {"fallback": settings.fallback} if is_learned(settings.name) else {}
    if settings.noise is not None:
        options["noise"] = settings.noise
    prior = load_prior(settings.name, device=device, **options)
    if settings.noise is None and settings.train != "none" and _is_kldm(prior):
        set_noise(prior, PUBLISHED_NOISE)
    return prior


def _is_kldm(prior: Prior) -> TypeGuard[LearnedPrior]:
    return isinstance(prior, LearnedPrior) and isinstance(prior.model, Kldm)


def load_campaign_hull(config: Config, potential: Potential) -> SearchHull:
    """The hull that a config names, for its potential."""
    if config.hull.kind == "alex-mp":
        return load_alex_mp(config.hull.path, potential)
    return load_hull(potential, config.hull.kind)


TRIED_ON = 2
"""Known crystals on which an own objective is tried: with one, an answer of fixed length would not show."""


def load_objectives(config: Config, reference: Reference) -> list[Objective]:
    """The own objectives of a config, each tried on the smallest known crystals within the limits.

    Where the reference has none within the limits, nothing is tried: the objective may know what is in them.
    """
    objectives = [load_objective(name) for name in config.reward.objectives]
    if not objectives:
        return []
    space = config.action_space
    amounts = reference.crystals.compositions.amounts > 0  # [n, 119]
    allowed = np.isin(SYMBOLS, space.elements or VOCABULARY) & ~np.isin(SYMBOLS, space.exclude)
    fits = ~amounts[:, ~allowed].any(axis=1) & np.isin(amounts.sum(axis=1), space.k)
    fits &= amounts[:, np.isin(SYMBOLS, space.must_contain)].all(axis=1)
    rows = np.flatnonzero(fits)
    rows = rows[np.argsort(reference.crystals.counts[rows], kind="stable")][:TRIED_ON]
    if len(rows):
        for objective in objectives:
            try_objective(objective, reference.crystals[rows].to_structures())
    return objectives


def make_scorer(
    config: Config, reference: Reference, checks: Checks, objectives: Sequence[Objective] = ()
) -> GroupScorer:
    """The reward of a config on a reference, with its own objectives as `load_objectives` gives them."""
    novelty = config.novelty
    flags = None
    if novelty.mode in ("binary", "creativity"):
        flags = StructureFlags(
            lambda formula: reference.crystals[np.flatnonzero(reference.formulas == formula)].to_structures()
        )
    index = reference.rdf
    if (novelty.r_max, novelty.n_bins, novelty.primitive) != (R_MAX, N_BINS, False):  # not what is bundled
        index = RdfIndex(checks.embed(reference.crystals, None), reference.formulas.tolist())
    return GroupScorer(
        index=index,
        struct_bandwidth=config.reward.struct_bandwidth or index.struct_bandwidth,
        novelty=novelty,
        settings=config.reward,
        objectives=objectives,
        flags=flags,
    )

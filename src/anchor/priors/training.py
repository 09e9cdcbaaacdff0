"""Training a learned prior: a run (`anchor.models.run`) that is watched and judged by match rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.models import run
from anchor.models.base import StructureModel, TrainableModel
from anchor.models.data import reference_split
from anchor.models.run import Exam, Plan, Report, Rhythm
from anchor.models.training import Trainer
from anchor.priors.learned import TrainedPrior, prior_of
from anchor.priors.match_rate import held_out, measure, some

VALIDATION_CRYSTALS = 400
"""Crystals of the validation loss."""


@dataclass(frozen=True)
class Matches:
    """How many crystals to match: during training, with how many sampler steps, and at the end; 0: none."""

    watch: int = 100
    watch_steps: int = 30
    test: int = 200


USUAL = Matches()


def train(
    plan: Plan,
    folder: Path,
    *,
    hours: float | None = None,
    resume: bool = False,
    rhythm: Rhythm = run.USUAL,
    matches: Matches = USUAL,
    device: str = "cpu",
    report: Report = lambda _document: None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """`anchor.models.run.train` of a prior; returns the card."""
    validation = validation_set(plan.max_atoms)
    exam = Exam(
        validation,
        lambda trainer, model: watch(trainer, model, validation, matches),
        lambda trainer, model: final(trainer, model, matches),
    )
    return run.train(
        plan,
        folder,
        exam,
        hours=hours,
        resume=resume,
        rhythm=rhythm,
        device=device,
        report=report,
        command=command,
    )


def validation_set(max_atoms: int = 20) -> Crystals:
    """The validation crystals that runs are watched with: always the same."""
    crystals = reference_split("val")
    return some(crystals[np.flatnonzero(crystals.counts <= max_atoms)], VALIDATION_CRYSTALS)


def watch(trainer: Trainer, model: TrainableModel, validation: Crystals, matches: Matches) -> dict[str, Any]:
    """The match rate of some validation crystals."""
    if not matches.watch:
        return {}
    prior = as_prior(trainer, model, steps=matches.watch_steps if isinstance(model, StructureModel) else None)
    known = np.array([prior.knows(crystal) for crystal in validation])
    truth = some(validation[np.flatnonzero(known)], matches.watch)
    rates = measure(prior, truth, 1, seed=trainer.seed).summary()
    return {
        key: rates[key] for key in ("n", "match_rate", "rmse", "valid", "volume_error_median", "fallbacks")
    }


def final(trainer: Trainer, model: TrainableModel, matches: Matches) -> dict[str, Any]:
    """The match rate of some test crystals no larger than the training crystals."""
    if not matches.test:
        return {}
    prior = as_prior(trainer, model)
    truth = held_out("test")
    largest = trainer.data.crystals.counts.max()
    known = [i for i, crystal in enumerate(truth) if prior.knows(crystal) and len(crystal.numbers) <= largest]
    rates = measure(prior, some(truth[np.array(known)], matches.test), 1).summary()
    return {"test": {"sampler_steps": getattr(prior, "steps", None), **rates}}


def as_prior(trainer: Trainer, model: TrainableModel, *, steps: int | None = None) -> TrainedPrior:
    """The model of a running training as a prior."""
    return prior_of(
        model,
        elements=trainer.data.elements,
        steps=steps,
        fallback="random",  # so that nobody else's matches are counted
        device=trainer.device,
    )

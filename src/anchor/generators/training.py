"""Training a generator by likelihood: a run (`anchor.models.run`) that is watched by what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.generators.figures import figures
from anchor.generators.generator import NAMES, Generator
from anchor.models import run
from anchor.models.base import JointModel, TrainableModel
from anchor.models.data import reference_split
from anchor.models.run import Exam, Plan, Report, Rhythm
from anchor.models.training import Trainer
from anchor.random import generator

VALIDATION_CRYSTALS = 400
"""Crystals of the validation loss."""
WATCHED_STEPS = 20
"""Sampler steps of the crystals that are looked at during training."""


def train(
    plan: Plan,
    folder: Path,
    *,
    watched: int = 64,
    tested: int = 200,
    hours: float | None = None,
    resume: bool = False,
    rhythm: Rhythm = run.USUAL,
    device: str = "cpu",
    report: Report = lambda _document: None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """`anchor.models.run.train` of a generator; returns the card.

    Args:
        watched: Crystals made at every look.
        tested: Crystals made at the end, for the card.
    """
    if plan.name not in NAMES:
        raise InputError(f"there is no generator '{plan.name}'", nearest(plan.name, NAMES))

    def look(trainer: Trainer, model: TrainableModel) -> dict[str, Any]:
        return {"samples": _made(trainer, model, watched, steps=WATCHED_STEPS)} if watched else {}

    def last(trainer: Trainer, model: TrainableModel) -> dict[str, Any]:
        return {"samples": _made(trainer, model, tested)} if tested else {}

    return run.train(
        plan,
        folder,
        Exam(validation_crystals(plan.max_atoms), look, last),
        hours=hours,
        resume=resume,
        rhythm=rhythm,
        device=device,
        report=report,
        command=command,
    )


def validation_crystals(max_atoms: int = 20) -> Crystals:
    """Of the validation split, always the same."""
    crystals = reference_split("val")
    fits = np.flatnonzero(crystals.counts <= max_atoms)
    order = generator(0, "validation of generators").permutation(len(fits))
    return crystals[np.sort(fits[order[:VALIDATION_CRYSTALS]])]


def _made(trainer: Trainer, model: TrainableModel, n: int, *, steps: int | None = None) -> dict[str, Any]:
    assert isinstance(model, JointModel)
    made = Generator(model, steps=steps).draw(n, seed=trainer.seed, stream=("look",))
    return figures(made.crystals)

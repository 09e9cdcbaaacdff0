"""A training run in a folder: resume, train until time or steps are over, look at validation, export."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError

from anchor.crystals.crystals import Crystals
from anchor.devices import usable_device
from anchor.errors import InputError
from anchor.models.base import JointModel, Recipe, TrainableModel
from anchor.models.card import write_cards
from anchor.models.compositions import learn_compositions
from anchor.models.data import training_crystals
from anchor.models.files import append_line, keep_until
from anchor.models.kldm import Kldm
from anchor.models.omatg import Omatg
from anchor.models.registry import load_model, model_from, new_model, save_model, weights_file
from anchor.models.training import STATE_FILE, Trainer, evaluation_loss
from anchor.reading import read_json

METRICS_FILE = "metrics.jsonl"
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Plan:
    """What to train, and how; everything that decides the weights (with `steps`).

    Attributes:
        name: Of `registry.MODELS`.
        size: small or published.
        sources: 'reference', files, folders.
        seed: Of initial weights, batches and noise.
        steps: Where to stop, and the length of a cosine schedule.
        precision: bf16 or fp32.
        max_atoms: Leave larger training crystals out.
        start: Weights to start from: of this model (fine-tuning), or of another one with the same kind of
            network, whose parts that mean the same are taken over.
        recipe: Changes to the model's recipe, as (field, value).
        settings: Changes to the model's settings, as (field, value).
    """

    name: str
    size: str = "small"
    sources: tuple[str, ...] = ("reference",)
    seed: int = 0
    steps: int | None = None
    precision: str = "bf16"
    max_atoms: int = 20
    start: str | None = None
    recipe: tuple[tuple[str, Any], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Rhythm:
    """How often to do what, in seconds of wall time. Never changes the weights."""

    checkpoint: float = 180.0
    log: float = 30.0
    validate: float = 1200.0


@dataclass(frozen=True, eq=False)
class Exam:
    """What a run is watched with, and judged by at its end.

    Attributes:
        validation: Crystals of the validation loss.
        watch: More about the averaged weights, for the log.
        test: What the card says of the finished weights.
    """

    validation: Crystals
    watch: Callable[[Trainer, TrainableModel], dict[str, Any]]
    test: Callable[[Trainer, TrainableModel], dict[str, Any]]


USUAL = Rhythm()


def train(
    plan: Plan,
    folder: Path,
    exam: Exam,
    *,
    hours: float | None = None,
    resume: bool = False,
    rhythm: Rhythm = USUAL,
    device: str = "cpu",
    report: Report = lambda _document: None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Train in `folder` until `plan.steps` or `hours` of this call are over; returns the card.

    Args:
        resume: Continue the run in the folder; otherwise the folder must hold none.
        report: Called with every document that goes to the log.
        command: The command line, for the card.
    """
    if plan.steps is None and hours is None:
        raise InputError("training needs an end", "give --hours or --steps")
    began = time.monotonic()
    state = _previous(plan, folder, resume=resume)
    trainer = make_trainer(plan, device)
    folder.mkdir(parents=True, exist_ok=True)  # not before: a wrong name or file leaves nothing behind
    description = {
        "plan": asdict(plan),
        "data_hash": trainer.data.hash,
        "data_crystals": len(trainer.data),
        "elements": sorted(trainer.data.elements),
        "parameters": trainer.model.n_parameters,
        "settings": trainer.model.settings(),
        "recipe": asdict(trainer.recipe),
        "command": shlex.join(command),
    }
    if plan.start is not None:
        description["started_from"] = _past(load_model(weights_file(plan.start))[1]["card"])
    if state is not None:
        if state["data_hash"] != trainer.data.hash:
            raise InputError(f"{folder} was trained on other crystals than {', '.join(plan.sources)} are now")
        trainer.restore(folder, state)
        keep_until(folder / METRICS_FILE, trainer.step)

    def log(document: dict[str, Any]) -> None:
        append_line(folder / METRICS_FILE, document)
        report(document)

    window: list[dict[str, float]] = []
    clock = time.monotonic()
    saved = logged = validated = clock
    while not _over(plan, trainer, hours, began):
        window.append(trainer.advance())
        now = time.monotonic()
        if now - logged >= rhythm.log:
            log(_averages(trainer, window, now - logged, _left(plan, trainer, hours, began)))
            window, logged = [], now
        if now - saved >= rhythm.checkpoint:
            trainer.save(folder, description)
            saved = now
        if now - validated >= rhythm.validate:
            log(validate(trainer, exam))
            validated = logged = time.monotonic()
    if window:
        log(_averages(trainer, window, time.monotonic() - logged, 0.0))
    trainer.save(folder, description)
    log(validate(trainer, exam))
    return export(trainer, folder, description, exam)


def make_trainer(plan: Plan, device: str = "cpu") -> Trainer:
    """Data, model and optimiser of a plan, before the first step."""
    usable_device(device)
    crystals = training_crystals(plan.sources)
    crystals = crystals[np.flatnonzero(crystals.counts <= plan.max_atoms)]
    started = _start(plan)
    model = fresh_model(plan) if started is None else started
    data = model.training_set(crystals)
    if started is None:
        model.fit_statistics(data.crystals)
        if plan.start is not None:
            other, card = load_model(weights_file(plan.start))
            if isinstance(model, Kldm) and isinstance(other, Omatg):
                model.begin_as(other)
            elif isinstance(model, Omatg) and isinstance(other, Kldm):
                model.network.begin_as(other.network)
            elif isinstance(model, JointModel):
                model.begin_as(other)
            else:
                raise InputError(f"{plan.start} holds weights of '{card['name']}', not of '{plan.name}'")
        if isinstance(model, JointModel):
            learn_compositions(model, data.crystals, seed=plan.seed)
    recipe = replace(model.recipes[plan.size], **_known_fields(plan.recipe, Recipe, "recipe"))
    return Trainer(
        model,
        data,
        recipe,
        seed=plan.seed,
        total_steps=plan.steps,
        precision=plan.precision,
        device=device,
    )


def _start(plan: Plan) -> TrainableModel | None:
    """The model to fine-tune, or None where there is none of this name."""
    if plan.start is None:
        return None
    model, card = load_model(weights_file(plan.start))
    if card["name"] != plan.name:
        return None
    if plan.settings:
        settings = _known_fields(plan.settings, type(model.chosen), "setting")
        changed = model_from(plan.name, {**model.settings(), **settings})
        try:
            changed.load_state_dict(model.state_dict())
        except RuntimeError:
            raise InputError(
                f"{', '.join(settings)}: with this setting the network of {plan.start} is another one",
                "train it without --start-from",
            ) from None
        model = changed
    return model.requires_grad_(True)


def fresh_model(plan: Plan) -> TrainableModel:
    """A model with random weights that depend on the seed alone."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        model = new_model(plan.name, plan.size)
        if plan.settings:
            settings = _known_fields(plan.settings, type(model.chosen), "setting")
            torch.manual_seed(plan.seed)
            model = model_from(plan.name, {**model.settings(), **settings})
    return model


def _past(card: dict[str, Any]) -> dict[str, Any]:
    """What a card says of the training it describes, and of what that one started from."""
    kept = ("plan", "recipe", "data_hash", "data_crystals", "steps", "epochs", "hours", "started_from")
    return {name: card[name] for name in kept if name in card}


def _known_fields(changes: Sequence[tuple[str, Any]], kind: type, what: str) -> dict[str, Any]:
    """Changes by name, each of them of the kind that its field has."""
    fields = get_type_hints(kind)
    for name, value in changes:
        if name not in fields:
            raise InputError(f"there is no {what} '{name}'", f"choose one of: {', '.join(fields)}")
        try:
            TypeAdapter(fields[name]).validate_python(value)
        except ValidationError as error:
            raise InputError(f"{what} {name} = {value!r}: {error.errors()[0]['msg']}") from None
    return dict(changes)


def validate(trainer: Trainer, exam: Exam) -> dict[str, Any]:
    """Validation losses of the averaged weights, and what the exam says of them."""
    with trainer.averaged() as model:
        losses = evaluation_loss(model, model.training_set(exam.validation))
        return {"kind": "validation", "step": trainer.step, **losses, **exam.watch(trainer, model)}


def export(trainer: Trainer, folder: Path, description: dict[str, Any], exam: Exam) -> dict[str, Any]:
    """Write averaged weights (half precision) and model cards; returns the card."""
    card = {
        **description,
        "steps": trainer.step,
        "hours": trainer.seconds / 3600,
        "epochs": trainer.step * trainer.recipe.batch_size / len(trainer.data),
    }
    with trainer.averaged() as model:
        card |= exam.test(trainer, model)
        path = folder / f"{model.name}.safetensors"
        save_model(path, model, {"elements": card["elements"], "card": card}, half=True)
    write_cards(folder, path, card, folder / METRICS_FILE)
    return card


def _previous(plan: Plan, folder: Path, *, resume: bool) -> dict[str, Any] | None:
    """The state to resume from, or None for a new run."""
    path = folder / STATE_FILE
    if not resume:
        if path.exists():
            raise InputError(
                f"{folder} already holds a run", "continue it with --resume, or choose another folder"
            )
        return None
    if not path.exists():
        raise InputError(f"there is no run to resume in {folder}", "leave --resume out to start one")
    state = read_json(path)
    before = {**state["plan"], "steps": plan.steps}
    now = {name: _listed(value) for name, value in asdict(plan).items()}
    changed = [name for name, value in now.items() if before[name] != value]
    if changed:
        raise InputError(
            f"the run in {folder} has another {', '.join(changed)}: "
            + "; ".join(f"{name} was {before[name]!r}, now {now[name]!r}" for name in changed),
            "repeat the options it was started with",
        )
    return state


def _listed(value: Any) -> Any:
    """Tuples as JSON gives them back."""
    return [_listed(v) for v in value] if isinstance(value, (tuple, list)) else value


def _over(plan: Plan, trainer: Trainer, hours: float | None, began: float) -> bool:
    if plan.steps is not None and trainer.step >= plan.steps:
        return True
    return hours is not None and time.monotonic() - began >= 3600 * hours


def _left(plan: Plan, trainer: Trainer, hours: float | None, began: float) -> float:
    """Seconds until the end, about."""
    estimates = []
    if hours is not None:
        estimates.append(3600 * hours - (time.monotonic() - began))
    if plan.steps is not None:
        estimates.append(trainer.seconds / max(trainer.step, 1) * (plan.steps - trainer.step))
    return min(estimates)


def _averages(
    trainer: Trainer, window: list[dict[str, float]], seconds: float, left: float
) -> dict[str, Any]:
    means = {name: sum(entry[name] for entry in window) / len(window) for name in window[0]}
    return {
        "kind": "training",
        "step": trainer.step,
        "epoch": trainer.step * trainer.recipe.batch_size / len(trainer.data),
        "hours": trainer.seconds / 3600,
        "crystals_per_second": len(window) * trainer.recipe.batch_size / max(seconds, 1e-9),
        "seconds_left": left,
        **means,
    }

"""Training a learned prior: resumable to the bit, for hours in the background.

One step: `batch_size` crystals, gradient summed over groups of equal size, clipped, one optimiser step, one
step of the averaged weights (EMA). Everything random in step k is a function of (seed, k), so a run that was
stopped and resumed ends with the same weights as one that was not (same machine, same number of threads).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anchor.errors import AnchorError, InputError, nearest
from anchor.models.base import Recipe, TrainableModel
from anchor.models.data import TrainingSet
from anchor.random import generator, torch_generator
from anchor.weights import read, write, write_json

STATE_FILE = "state.json"
_LAST_SHARE = 0.01  # of the learning rate at the end of a cosine schedule
_KEPT = 2  # checkpoints on disk


class Trainer:
    """Model, optimiser and averaged weights, and how one step changes them.

    Args:
        model: Its statistics must be fitted.
        data: What to train on.
        recipe: Optimiser settings.
        seed: Of batches and noise.
        total_steps: Planned steps, for the cosine schedule.
        precision: 'bf16' computes networks in bfloat16 (weights stay in single precision), or 'fp32'.
        device: Where to compute.
    """

    def __init__(
        self,
        model: TrainableModel,
        data: TrainingSet,
        recipe: Recipe,
        *,
        seed: int = 0,
        total_steps: int | None = None,
        precision: str = "bf16",
        device: str = "cpu",
    ) -> None:
        if recipe.schedule not in ("constant", "cosine"):
            raise InputError(
                f"unknown schedule '{recipe.schedule}'", nearest(recipe.schedule, ["constant", "cosine"])
            )
        if recipe.schedule == "cosine" and total_steps is None:
            raise InputError("a cosine schedule needs to know where it ends", "give the number of steps")
        if precision not in ("bf16", "fp32"):
            raise InputError(f"unknown precision '{precision}'", nearest(precision, ["bf16", "fp32"]))
        self.model = model.to(device).train()
        self.data, self.recipe, self.seed = data, recipe, seed
        self.total_steps, self.precision, self.device = total_steps, precision, device
        self.optimiser = make_optimiser(model, recipe)
        self.ema = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.step = 0
        self.seconds = 0.0
        """Wall time spent in steps, over all runs."""

    def advance(self) -> dict[str, float]:
        """One step; returns its losses, the norm of its gradient and its learning rate."""
        start = time.perf_counter()
        sums = self._gradients()
        clip = self.recipe.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip))
        if not math.isfinite(norm):
            raise AnchorError(
                f"the gradient of step {self.step} is {norm}", "resume with a smaller learning rate"
            )
        rate = learning_rate(self.recipe, self.step, self.total_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.step += 1
        decay = min(self.recipe.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                self.ema[name].lerp_(parameter, 1 - decay)
        self.seconds += time.perf_counter() - start
        return {**sums, "gradient_norm": norm, "learning_rate": rate}

    def _gradients(self) -> dict[str, float]:
        recipe = self.recipe
        self.optimiser.zero_grad(set_to_none=True)
        groups = list(
            self.data.batches(
                self.step,
                recipe.batch_size,
                self.seed,
                translate=self.model.frame == "shifted",
                alike=recipe.alike,
            )
        )
        totals = entries_of(self.model, [(len(b), b.n_atoms) for _, b in groups])
        times = even_times(recipe.batch_size, self.seed, self.step)
        losses = dict.fromkeys(totals, 0.0)
        for places, batch in groups:
            rng = torch_generator(self.seed, "training noise", self.step, batch.n_atoms)
            with torch.autocast(
                torch.device(self.device).type, torch.bfloat16, enabled=self.precision == "bf16"
            ):
                sums = self.model.loss_sums(batch.to(self.device), times[places].to(self.device), rng)
            loss = sum(
                (self.model.term_weights[name] / totals[name] * value for name, value in sums.items()),
                torch.zeros((), device=self.device),
            )
            loss.backward()
            for name, value in sums.items():
                losses[name] += value.item() / totals[name]
        losses["loss"] = sum(self.model.term_weights[name] * losses[name] for name in totals)
        return losses

    @contextmanager
    def averaged(self) -> Iterator[TrainableModel]:
        """The model with the averaged weights in place, for evaluation."""
        kept = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self._put(self.ema)
        self.model.eval()
        try:
            with torch.no_grad():
                yield self.model
        finally:
            self._put(kept)
            self.model.train()

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(values[name])

    # Checkpoints

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write a checkpoint: tensors, then the file that names them, so that a crash leaves the last one."""
        tensors = {f"weights.{name}": t for name, t in self.model.state_dict().items()}
        tensors |= {f"ema.{name}": t for name, t in self.ema.items()}
        for name, parameter in self.model.named_parameters():
            for moment, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"moment.{name}:{moment}"] = value
        path = folder / f"checkpoint-{self.step}.safetensors"
        write(path, tensors, {})
        write_json(
            folder / STATE_FILE,
            {**description, "checkpoint": path.name, "step": self.step, "seconds": self.seconds},
        )
        others = sorted(folder.glob("checkpoint-*.safetensors"), key=lambda p: int(p.stem.split("-")[1]))
        for old in others[:-_KEPT]:
            old.unlink()

    def restore(self, folder: Path, state: dict[str, Any]) -> None:
        """Continue from the checkpoint that `state` (the content of state.json) names."""
        _, tensors = read(folder / state["checkpoint"])
        by_kind: dict[str, dict[str, Tensor]] = {"weights": {}, "ema": {}, "moment": {}}
        for key, tensor in tensors.items():
            kind, _, name = key.partition(".")
            by_kind[kind][name] = tensor
        self.model.load_state_dict(by_kind["weights"])
        self.ema = {name: t.to(self.device) for name, t in by_kind["ema"].items()}
        parameters = dict(self.model.named_parameters())
        for key, tensor in by_kind["moment"].items():
            name, _, moment = key.rpartition(":")
            place = "cpu" if moment == "step" else self.device
            self.optimiser.state[parameters[name]][moment] = tensor.to(place)
        self.step, self.seconds = int(state["step"]), float(state["seconds"])


def make_optimiser(model: TrainableModel, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, AdamW, or AdamW with amsgrad."""
    if recipe.optimiser == "adam":
        return torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    if recipe.optimiser in ("adamw", "amsgrad"):
        return torch.optim.AdamW(
            model.parameters(),
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            amsgrad=recipe.optimiser == "amsgrad",
        )
    raise InputError(
        f"unknown optimiser '{recipe.optimiser}'", nearest(recipe.optimiser, ["adam", "adamw", "amsgrad"])
    )


def learning_rate(recipe: Recipe, step: int, total_steps: int | None) -> float:
    """Linear warm-up, then constant or half a cosine down to 1 %."""
    warm = min(1.0, (step + 1) / recipe.warmup) if recipe.warmup else 1.0
    if recipe.schedule == "constant" or total_steps is None:
        return recipe.learning_rate * warm
    done = min(step / max(total_steps, 1), 1.0)
    share = _LAST_SHARE + (1 - _LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * done))
    return recipe.learning_rate * warm * share


def even_times(count: int, seed: int, *names: str | int) -> Tensor:
    """Uniform numbers in (0, 1), one in each of `count` equal intervals, in random order.  # [count]"""
    rng = generator(seed, "training times", *names)
    return torch.from_numpy((rng.permutation(count) + rng.random(count)) / count).float()


def entries_of(model: TrainableModel, groups: list[tuple[int, int]]) -> dict[str, int]:
    """Over how many numbers each term of the loss is averaged, given (crystals, atoms each) of the groups."""
    totals: dict[str, int] = {}
    for crystals, n in groups:
        for name, count in model.entries(n).items():
            totals[name] = totals.get(name, 0) + crystals * count
    return totals


def evaluation_loss(model: TrainableModel, data: TrainingSet, *, seed: int = 0) -> dict[str, float]:
    """Losses over all of `data` with noise that is the same every time, in single precision."""
    groups = list(data.all_batches())
    totals = entries_of(model, [(len(b), b.n_atoms) for _, b in groups])
    times = even_times(len(data), seed, "evaluation")
    device = next(model.parameters()).device
    losses = dict.fromkeys(totals, 0.0)
    with torch.no_grad():
        for places, batch in groups:
            rng = torch_generator(seed, "evaluation noise", batch.n_atoms)
            sums = model.loss_sums(batch.to(device), times[np.asarray(places)].to(device), rng)
            for name, value in sums.items():
                losses[name] += float(value) / totals[name]
    losses["loss"] = sum(model.term_weights[name] * losses[name] for name in totals)
    return losses

"""A trained model as a prior: requests in, crystals out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.models.base import StructureModel, TrainableModel
from anchor.models.data import MAX_ATOMS
from anchor.models.ddpo import Way
from anchor.models.finished import MOST_PAIRS, finished_crystals, usable_cells
from anchor.models.kldm import Kldm
from anchor.models.noise import Noise
from anchor.models.registry import SHIPPED, load_model
from anchor.models.transitions import Trajectory
from anchor.models.wyckoff.model import Wyckoff
from anchor.priors.base import Prior, Sampled
from anchor.priors.registry import PRIORS, load_prior
from anchor.priors.request import Request
from anchor.priors.wyckoff import WyckoffPrior
from anchor.weights import live_hash

ATTEMPTS = 3
"""Times a crystal is drawn until its cell is one."""


class LearnedPrior(Prior):
    """Crystals of a trained model.

    Every crystal has its own noise, from its request alone. What else is computed with it changes only the
    order of floating-point sums (about 1e-6 per network call; in rare cases a path forks and another crystal
    comes out, so bit-identical reruns need the same batches).

    A crystal whose cell is broken (not finite, flat, or of absurd volume) is drawn again with fresh noise, up
    to three times in all; after that another prior answers the request, or nobody does.

    Args:
        model: In evaluation mode, on `device`.
        elements: Atomic numbers seen in training.
        steps: Sampler steps; None for the model's own number.
        fallback: Name of the prior that answers where the model fails, or "none".
        precision: fp32, or bf16 for networks in bfloat16: faster, and positions a little less exact.
        device: Where to compute.
        training: What the card says of the training: steps, epochs, hours.

    Attributes:
        records: Whether answers tell the way of their crystals (`Sampled.ways`).
    """

    records = False

    def __init__(
        self,
        model: StructureModel,
        *,
        elements: frozenset[int],
        steps: int | None = None,
        fallback: str = "templates",
        precision: str = "fp32",
        device: str = "cpu",
        training: Mapping[str, float] | None = None,
    ) -> None:
        if steps is not None and steps < 2:
            raise InputError(f"{steps} sampler steps are too few", "ask for at least two")
        if precision not in ("bf16", "fp32"):
            raise InputError(f"unknown precision '{precision}'", nearest(precision, ["bf16", "fp32"]))
        if fallback not in (*PRIORS, "none") and ":" not in fallback:
            raise InputError(f"unknown fallback '{fallback}'", nearest(fallback, [*PRIORS, "none"]))
        self.model = model
        self.name = model.name
        self.elements = elements
        self.max_atoms = MAX_ATOMS
        self.steps = steps or model.default_steps
        self.device = device
        self.fallback, self.precision = fallback, precision
        self.training = {} if training is None else dict(training)

    @property
    def hash(self) -> str:  # type: ignore[override]  # read-only here
        """Of the weights as they are now and all settings."""
        settings = [self.model.settings(), self.steps, self.fallback, self.precision]
        return live_hash(self.model, json.dumps(settings, sort_keys=True))

    def draw(self, requests: Sequence[Request]) -> Sampled:
        made: dict[int, tuple[Crystals, str]] = {}
        ways: list[Way] = []
        waiting = list(range(len(requests)))
        for attempt in range(ATTEMPTS):
            for chunk in _chunks(waiting, requests):
                recorder = Trajectory() if self.records else None
                crystals = self._draw_chunk([requests[i] for i in chunk], attempt, recorder)
                usable = usable_cells(crystals)
                made.update({i: (crystals[k], self.name) for k, i in enumerate(chunk) if usable[k]})
                if recorder is not None:
                    ways.append(Way(recorder, np.where(usable, chunk, -1)))
            waiting = [i for i in waiting if i not in made]
        missing = dict.fromkeys(waiting, f"'{self.name}' gave no usable cell in {ATTEMPTS} attempts")
        sampled = Sampled.gather(made, missing, ways)
        if not missing or self.fallback == "none":
            return sampled
        return sampled.filled(requests, load_prior(self.fallback))

    def _draw_chunk(self, requests: Sequence[Request], attempt: int, recorder: Trajectory | None) -> Crystals:
        """One crystal per request, all of the same number of atoms."""
        # Ordered by element: what was asked for, not how it was written, decides the crystal.
        numbers = np.stack([np.sort(request.composition.numbers) for request in requests])
        streams = [r.torch_rng("learned", r.draw, attempt) for r in requests]
        kind = torch.device(self.device).type
        half = torch.autocast(kind, torch.bfloat16, enabled=self.precision == "bf16")
        with torch.no_grad(), half:
            frac, cell = self.model.generate(
                torch.from_numpy(numbers).to(self.device),
                Noise(streams, self.device),
                steps=self.steps,
                recorder=recorder,
            )
        return finished_crystals(numbers, frac, cell)


def _chunks(indices: list[int], requests: Sequence[Request]) -> Iterator[list[int]]:
    """Indices grouped by atom count, in order, in pieces that memory can hold."""
    sizes = {i: requests[i].composition.n_atoms for i in indices}
    for n in sorted(set(sizes.values())):
        members = iter([i for i in indices if sizes[i] == n])
        while chunk := list(islice(members, max(1, MOST_PAIRS // n**2))):
            yield chunk


TrainedPrior = LearnedPrior | WyckoffPrior


def load(
    *,
    device: str = "cpu",
    weights: str | Path,
    steps: int | None = None,
    fallback: str = "templates",
    precision: str = "fp32",
    noise: float | None = None,
) -> TrainedPrior:
    """A learned prior by the name of weights that ship, or from a .safetensors file.

    Args:
        weights: wyckoff, omatg, kldm, crystalite, or a path.
        steps: Sampler steps; None for the model's own number.
        fallback: Prior that answers where the model fails; `random` for a test of the model alone; `none`.
        precision: fp32 or bf16 (faster on processors that know it).
        noise: Of kldm, factor of the noise of its velocities; None: as its weights say.
    """
    path = Path(weights)
    if path.suffix != ".safetensors":
        path = SHIPPED / f"{weights}.safetensors"
        if not path.is_file():
            raise MissingDependencyError(
                f"the prior '{weights}' has no weights yet ({path} is missing)",
                f"train it and copy it there: anchor prior train {weights} --out runs/{weights} --hours 8",
            )
    model, card = load_model(path)
    prior = prior_of(
        model.to(device),
        elements=frozenset(card["elements"]),
        steps=steps,
        fallback=fallback,
        precision=precision,
        device=device,
        training=training_of(card["card"]),
    )
    if noise is not None:
        set_noise(prior, noise)
    return prior


def set_noise(prior: TrainedPrior, factor: float) -> None:
    """Sample with so much of the published noise: a setting, so the prior's hash is another."""
    if not isinstance(prior.model, Kldm):
        raise InputError(
            f"the sampler of '{prior.name}' has no factor of noise", "leave it out: kldm has one"
        )
    prior.model.chosen = replace(prior.model.chosen, noise=factor)


def prior_of(
    model: TrainableModel,
    *,
    elements: frozenset[int],
    steps: int | None = None,
    fallback: str = "templates",
    precision: str = "fp32",
    device: str = "cpu",
    training: Mapping[str, float] | None = None,
) -> TrainedPrior:
    """A trained model as the prior of its kind; see `LearnedPrior` and `WyckoffPrior`."""
    if isinstance(model, Wyckoff):
        if steps is not None or precision != "fp32":
            raise InputError("the prior 'wyckoff' has no sampler steps and computes in fp32 only")
        # It writes a crystal for any atoms, so no other prior ever answers for it.
        return WyckoffPrior(model, elements=elements, device=device, training=training)
    if not isinstance(model, StructureModel):
        raise InputError(
            f"'{model.name}' chooses the elements itself: it is no prior", "see: anchor generator --help"
        )
    return LearnedPrior(
        model,
        elements=elements,
        steps=steps,
        fallback=fallback,
        precision=precision,
        device=device,
        training=training,
    )


def training_of(card: Mapping[str, Any]) -> dict[str, float]:
    """Steps, epochs and hours of a card, with those of the weights it started from."""
    total = {f"training_{name}": float(card[name]) for name in ("steps", "epochs", "hours")}
    if "started_from" in card:
        before = training_of(card["started_from"])
        total = {name: value + before[name] for name, value in total.items()}
    return total

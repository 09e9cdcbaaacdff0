"""A trained joint model as a source of crystals: how many atoms, which, where, in what cell.

>>> from anchor.generators.generator import load_generator
>>> load_generator("kldm-dng").draw(4, seed=0).crystals.formulas  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.models.base import JointModel
from anchor.models.ddpo import Way
from anchor.models.finished import MOST_PAIRS, finished_crystals
from anchor.models.noise import Noise
from anchor.models.registry import MODELS, load_model, weights_file
from anchor.models.transitions import Trajectory
from anchor.random import generator, torch_generator
from anchor.weights import live_hash

NAMES = tuple(name for name, kind in MODELS.items() if issubclass(kind, JointModel))


@dataclass(frozen=True, eq=False)
class Generated:
    """What a generator made.

    Attributes:
        crystals: All that were asked for; a cell may be broken (`usable_cells`).  # n
        ways: How they were sampled, owned by their places, where that was recorded.
    """

    crystals: Crystals
    ways: list[Way] = field(default_factory=list)


class Generator:
    """Crystals of a joint model.

    Every crystal has its own noise: the first n of a seed are the same however many are asked for, up to the
    order of floating-point sums.

    Args:
        model: On `device`.
        steps: Sampler steps; None for the model's own number.
        name: As people know it; the model's by default.
        card: What the file says of the training.
    """

    def __init__(
        self,
        model: JointModel,
        *,
        steps: int | None = None,
        name: str | None = None,
        card: dict[str, Any] | None = None,
    ) -> None:
        if steps is not None and steps < 2:
            raise InputError(f"{steps} sampler steps are too few", "ask for at least two")
        self.model, self.name = model, name or model.name
        self.steps = steps or model.default_steps
        self.card = {} if card is None else card

    @property
    def hash(self) -> str:
        """Of the weights as they are now and all settings."""
        return live_hash(self.model, json.dumps([self.model.settings(), self.steps], sort_keys=True))

    def draw(
        self, n: int, *, seed: int = 0, stream: tuple[str | int, ...] = (), record: bool = False
    ) -> Generated:
        """n crystals of a seed.

        Args:
            n: How many.
            seed: Of all random numbers.
            stream: Names of the random stream.
            record: Keep how they were sampled.
        """
        sizes = self.model.marginals.draw_sizes(n, generator(seed, "generator sizes", *stream))
        device = self.model.marginals.sizes.device
        crystals: list[Crystals] = []
        places: list[NDArray[np.int64]] = []
        ways: list[Way] = []
        for members in _chunks(sizes):
            streams = [torch_generator(seed, "generator", *stream, int(i)) for i in members]
            recorder = Trajectory() if record else None
            with torch.no_grad():
                numbers, frac, cell = self.model.create(
                    int(sizes[members[0]]), Noise(streams, device), steps=self.steps, recorder=recorder
                )
            crystals.append(finished_crystals(numbers.cpu().numpy(), frac, cell))
            places.append(members)
            if recorder is not None:
                ways.append(Way(recorder, members))
        back = np.argsort(np.concatenate([*places, np.zeros(0, dtype=np.int64)]))
        return Generated(Crystals.concatenate(crystals)[back], ways)


def _chunks(sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Places of crystals of one size, in pieces that memory can hold."""
    for n in np.unique(sizes).tolist():
        members = np.flatnonzero(sizes == n)
        most = max(1, MOST_PAIRS // n**2)
        for start in range(0, len(members), most):
            yield members[start : start + most]


def load_generator(text: str, *, steps: int | None = None, device: str = "cpu") -> Generator:
    """A generator by the name of weights that ship, or from a .safetensors file."""
    path = weights_file(text)
    if path.suffix == ".safetensors" and not str(text).endswith(".safetensors"):
        if text not in NAMES:
            raise InputError(f"there is no generator '{text}'", nearest(text, NAMES))
        if not path.is_file():
            raise MissingDependencyError(
                f"the generator '{text}' has no weights yet ({path} is missing)",
                f"train it: anchor generator train {text} --out runs/{text} --hours 8",
            )
    model, header = load_model(path)
    if not isinstance(model, JointModel):
        raise InputError(
            f"{path} holds a prior, '{model.name}', not a generator", f"known: {', '.join(NAMES)}"
        )
    return Generator(model.to(device), steps=steps, name=str(text), card=header["card"])

"""What a prior is asked for: one crystal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anchor.chemistry.composition import Composition
from anchor.random import generator, torch_generator


@dataclass(frozen=True)
class Request:
    """One crystal to be made. Nothing outside of it may influence the crystal, batch mates least of all.

    Attributes:
        composition: Atoms of the cell; of one formula unit when `units` is None.
        units: Formula units in the cell, or None where the prior is free to choose.
        draw: 0 for the first crystal asked of this composition, 1 for the second, … A prior that can rank may
            answer draw 0 with its best guess and later draws with different ones.
        seed: Seed of the whole call.
        stream: Names of the random stream of the call, then the position of the composition in it.
    """

    composition: Composition
    units: int | None
    draw: int
    seed: int
    stream: tuple[str | int, ...]

    def rng(self, *names: str | int) -> np.random.Generator:
        """Random numbers of this composition; add `self.draw` to the names for those of this crystal."""
        return generator(self.seed, "prior", *self.stream, *names)

    def torch_rng(self, *names: str | int, device: str | torch.device = "cpu") -> torch.Generator:
        """The same for torch."""
        return torch_generator(self.seed, "prior", *self.stream, *names, device=device)

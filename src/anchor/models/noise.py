"""Random numbers of crystals that are sampled together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Noise:
    """Random numbers of b crystals, each from its own stream: a crystal does not depend on its batch mates.

    Drawn on the CPU, so that every device starts from the same numbers.
    """

    def __init__(self, streams: Sequence[torch.Generator], device: str | torch.device = "cpu") -> None:
        self._streams, self._device = streams, device

    def __len__(self) -> int:
        return len(self._streams)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers.  # [b, *shape]"""
        return torch.stack([torch.randn(shape, generator=g) for g in self._streams]).to(self._device)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1).  # [b, *shape]"""
        return torch.stack([torch.rand(shape, generator=g) for g in self._streams]).to(self._device)

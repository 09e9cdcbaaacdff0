"""What the engine asks of an optimiser: where the crystals are, and where to evaluate them next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from anchor.relax.coordinates import Frame, Rows


@dataclass
class Walk(Rows):
    """Crystals on their way down, one row each; rows never look at each other.

    Attributes:
        at: Accepted coordinates.  # [b, r, 3]
        energy: There, eV.  # [b]
        gradient: There, eV/Å.  # [b, r, 3]
        trial: Where to evaluate next.  # [b, r, 3]
        unusable: Evaluations in a row that were not finite.  # [b], int64
    """

    at: torch.Tensor
    energy: torch.Tensor
    gradient: torch.Tensor
    trial: torch.Tensor
    unusable: torch.Tensor

    @classmethod
    def begin(cls, frame: Frame, at: torch.Tensor, energy: torch.Tensor, gradient: torch.Tensor) -> Self:
        """Start from crystals that were just evaluated for the first time."""
        raise NotImplementedError

    def advance(self, frame: Frame, energy: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Take the evaluation at `trial`, choose the next one.

        Returns:
            Which trials were accepted, that is: are where the crystals are now.  # [b], bool
        """
        raise NotImplementedError


def finite(energy: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Which evaluations can be used.  # [b], bool"""
    return torch.isfinite(energy) & torch.isfinite(gradient).all(dim=(1, 2))


def column(values: torch.Tensor) -> torch.Tensor:
    """One number per crystal, to multiply its rows with.  # [b] -> [b, 1, 1]"""
    return values[:, None, None]

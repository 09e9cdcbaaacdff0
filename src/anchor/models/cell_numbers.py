"""KLDM's six numbers of a cell: log lengths, standardised among cells with as many atoms, and angles.

l = ((ln a − m_n)/s_n, (ln b − m_n)/s_n, (ln c − m_n)/s_n, tan(φ − π/2)/0.35 for α, β, γ)
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.models.cells import from_lengths_and_angles, lengths_and_angles, squared_volume_of_angles
from anchor.models.data import MAX_ATOMS

ANGLE_SCALE = 0.35
TRIM = 0.025
"""Share of lengths left out of the statistics at both ends."""
ENOUGH = 40
"""Crystals of one size below which its statistics come from all sizes."""
LEAST_STD = 0.05
_FARTHEST = 8.0  # standard deviations of a log length that are believed


class CellNumbers(nn.Module):
    """The numbers of cells with n atoms, and back."""

    log_length_mean: Tensor
    log_length_std: Tensor

    def __init__(self) -> None:
        super().__init__()
        # By atom count; row 0 is not used.
        self.register_buffer("log_length_mean", torch.full((MAX_ATOMS + 1, 3), 1.7))
        self.register_buffer("log_length_std", torch.full((MAX_ATOMS + 1, 3), 0.3))

    def fit(self, crystals: Crystals) -> None:
        """Trimmed statistics by atom count; where crystals are few, of ln a − ⅓ ln n over all sizes."""
        log_lengths = np.log(np.linalg.norm(crystals.lattice, axis=2))
        everywhere = _trimmed(log_lengths - np.log(crystals.counts)[:, None] / 3)
        for n in range(1, MAX_ATOMS + 1):
            same = crystals.counts == n
            if same.sum() >= ENOUGH:
                mean, std = _trimmed(log_lengths[same])
            else:
                mean, std = everywhere[0] + math.log(n) / 3, everywhere[1]
            self.log_length_mean[n] = torch.from_numpy(mean)
            self.log_length_std[n] = torch.from_numpy(np.maximum(std, LEAST_STD))

    def encode(self, lattice: Tensor, n: int) -> Tensor:
        """l of cells.  # [b, 3, 3] -> [b, 6]"""
        lengths, angles = lengths_and_angles(lattice)
        log_lengths = (lengths.log() - self.log_length_mean[n]) / self.log_length_std[n]
        return torch.cat([log_lengths, torch.tan(angles - math.pi / 2) / ANGLE_SCALE], dim=-1)

    def decode(self, l: Tensor, n: int, *, least: float | None = None) -> Tensor:
        """Upright cells, Å; NaN where no cell has these angles, unless `least` bounds (V / abc)².

        # [b, 6] -> [b, 3, 3]
        """
        believed = l[..., :3].clamp(-_FARTHEST, _FARTHEST)
        lengths = torch.exp(self.log_length_mean[n] + self.log_length_std[n] * believed)
        angles = math.pi / 2 + torch.atan(ANGLE_SCALE * l[..., 3:])
        cell = from_lengths_and_angles(lengths, angles, least=least)
        if least is None:
            broken = squared_volume_of_angles(angles) <= 0
            cell = torch.where(broken[..., None, None], torch.nan, cell)
        return cell


def _trimmed(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population standard deviation of each column without its 2.5 % at both ends."""
    ordered = np.sort(values, axis=0)
    cut = int(TRIM * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    return kept.mean(axis=0), kept.std(axis=0)

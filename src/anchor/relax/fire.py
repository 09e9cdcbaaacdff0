"""FIRE (Bitzek et al., PRL 97, 170201), batched: each crystal has its own time step and mixing.

Written here on the coordinates of `anchor.relax.coordinates` with ASE's order of operations and constants,
because torch-sim's FIRE treats the whole batch differently in any step in which a new crystal enters (its
velocity mixing is skipped for all), so that results would depend on who shares the batch, and it takes nine
matrix exponentials per crystal and step in a Python loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from anchor.relax.coordinates import Frame, Rows
from anchor.relax.walk import Walk, column, finite

FIRST_TIME_STEP = 0.1
LONGEST_TIME_STEP = 1.0
PATIENCE = 5
FASTER, SLOWER = 1.1, 0.5
FIRST_MIXING, MIXING_DECAY = 0.1, 0.99
LONGEST_STEP = 0.2
"""Å, norm over all coordinates, as ASE."""


@dataclass
class Inertia(Rows):
    """Velocity, time step, mixing and downhill steps in a row.  # [b, r, 3], [b], [b], [b]"""

    velocity: torch.Tensor
    time_step: torch.Tensor
    mixing: torch.Tensor
    downhill: torch.Tensor

    @classmethod
    def at_rest(cls, gradient: torch.Tensor) -> Self:
        one = gradient.new_ones(len(gradient))
        return cls(torch.zeros_like(gradient), one * FIRST_TIME_STEP, one * FIRST_MIXING, (one * 0).long())

    def step(self, gradient: torch.Tensor) -> torch.Tensor:
        """Move on in place, and give the displacements.  # [b, r, 3]"""
        force = -gradient
        # A crystal at rest has no power; ASE then only accelerates, and the same comes out here because
        # nothing but its time step would change.
        resting = self.velocity.square().sum(dim=(1, 2)) == 0
        power = (force * self.velocity).sum(dim=(1, 2))
        down, up = power > 0, (power <= 0) & ~resting
        norm_force = force.square().sum(dim=(1, 2)).sqrt()
        norm_velocity = self.velocity.square().sum(dim=(1, 2)).sqrt()
        turned = column(self.mixing * norm_velocity / norm_force.clamp_min(1e-300)) * force
        mixed = column(1 - self.mixing) * self.velocity + turned
        self.velocity = torch.where(column(down), mixed, torch.zeros_like(mixed))
        quicken = down & (self.downhill > PATIENCE)
        faster = (self.time_step * FASTER).clamp_max(LONGEST_TIME_STEP)
        self.time_step = torch.where(
            quicken, faster, torch.where(up, self.time_step * SLOWER, self.time_step)
        )
        self.mixing = torch.where(quicken, self.mixing * MIXING_DECAY, self.mixing)
        self.mixing = torch.where(up, torch.full_like(self.mixing, FIRST_MIXING), self.mixing)
        self.downhill = torch.where(down, self.downhill + 1, torch.zeros_like(self.downhill))
        self.velocity = self.velocity + column(self.time_step) * force
        move = column(self.time_step) * self.velocity
        length = move.square().sum(dim=(1, 2)).sqrt()
        return move * column((LONGEST_STEP / length.clamp_min(1e-300)).clamp_max(1.0))


@dataclass
class FireWalk(Walk):
    """Every step is accepted, up or down, as in ASE."""

    inertia: Inertia

    @classmethod
    def begin(cls, frame: Frame, at: torch.Tensor, energy: torch.Tensor, gradient: torch.Tensor) -> Self:
        inertia = Inertia.at_rest(gradient)
        return cls(at, energy, gradient, at + inertia.step(gradient), torch.zeros_like(frame.index), inertia)

    def advance(self, frame: Frame, energy: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        usable = finite(energy, gradient)
        self.unusable = torch.where(usable, torch.zeros_like(self.unusable), self.unusable + 1)
        self.at = torch.where(column(usable), self.trial, self.at)
        self.energy = torch.where(usable, energy, self.energy)
        self.gradient = torch.where(column(usable), gradient, self.gradient)
        # Where the trial could not be used the crystal stays, and a velocity against the force makes the next
        # step an uphill one: it stops and goes on with half the time step.
        self.inertia.velocity = torch.where(column(usable), self.inertia.velocity, self.gradient)
        self.trial = self.at + self.inertia.step(self.gradient)
        return usable

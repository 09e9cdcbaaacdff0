"""Batched BFGS with a trust radius and an energy guard, and FIRE for crystals that defeat it.

Each crystal has its own inverse Hessian, started from the spring model of `anchor.relax.model_hessian`,
scaled once by the first curvature that is measured, and updated with Powell's damping so that it stays
positive definite. A step is the Newton step, shortened to the trust radius. A step that raises the energy is
taken back: the crystal stays, the radius shrinks to the minimum of the parabola through both energies, and
what was learnt at the failed point improves the Hessian all the same. When four steps in a row fail, the
Hessian is rebuilt at the current geometry; when eight fail, FIRE takes over for a while: it needs forces
only, which helps where energies and forces disagree (noise, potentials that predict forces directly).

A step is always a multiple of −B g (B: inverse Hessian, g: gradient), therefore H s = −t g and no matrix is
ever factorised but the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from anchor.relax.coordinates import Frame, largest_row
from anchor.relax.fire import Inertia
from anchor.relax.model_hessian import model_hessian
from anchor.relax.walk import Walk, column, finite

FIRST_RADIUS = 0.3
LARGEST_RADIUS = 0.5
SMALLEST_RADIUS = 1e-4
"""Å: trust radius, as the largest move of an atom (ASE's maxstep)."""
GROW, SHRINK = 1.5, 0.7
"""Of the radius after a step that went better than 3/4 or worse than 1/4 of what the model promised."""
ENERGY_NOISE = 5e-5
"""eV/atom: a rise this small is not a rise; networks in single precision are that noisy."""
LARGEST_RESCALING = 4.0
"""Limit for the factor by which the first curvature corrects the spring model."""
DAMPING = 0.2
"""Powell's: curvature along a step is never taken below this part of what the model has."""
REBUILD_AFTER, FIRE_AFTER = 4, 8
"""Failed steps in a row until the Hessian is rebuilt, and until FIRE takes over."""
FIRE_STEPS = 25


@dataclass
class QuasiNewtonWalk(Walk):
    """See the module. `scale` is the t of s = −t B g; `failed` counts rejections in a row."""

    inverse: torch.Tensor  # [b, 3r, 3r], Å²/eV
    scale: torch.Tensor  # [b]
    radius: torch.Tensor  # [b], Å
    failed: torch.Tensor  # [b], int64
    untouched: torch.Tensor  # [b], bool: no curvature was measured since the Hessian was built
    fire_left: torch.Tensor  # [b], int64: steps that FIRE still has
    inertia: Inertia

    @classmethod
    def begin(cls, frame: Frame, at: torch.Tensor, energy: torch.Tensor, gradient: torch.Tensor) -> Self:
        ones, zeros = torch.ones_like(energy), torch.zeros_like(frame.index)
        walk = cls(
            at=at,
            energy=energy,
            gradient=gradient,
            trial=at,
            unusable=zeros,
            inverse=first_inverse(frame, at),
            scale=ones,
            radius=ones * FIRST_RADIUS,
            failed=zeros,
            untouched=zeros == 0,
            fire_left=zeros,
            inertia=Inertia.at_rest(gradient),
        )
        walk._propose()
        return walk

    def advance(self, frame: Frame, energy: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        usable, by_fire = finite(energy, gradient), self.fire_left > 0
        energy = torch.where(usable, energy, self.energy)
        gradient = torch.where(column(usable), gradient, self.gradient)
        step = self.trial - self.at
        rise = energy - self.energy
        noise = ENERGY_NOISE * frame.counts
        smaller = largest_row(gradient) < largest_row(self.gradient)
        accepted = usable & ((rise <= noise) | (by_fire & smaller))

        self._adapt_radius(step, rise, gradient, accepted, usable)
        self._learn(step, gradient - self.gradient, usable & ~by_fire)
        self.at = torch.where(column(accepted), self.trial, self.at)
        self.energy = torch.where(accepted, energy, self.energy)
        self.gradient = torch.where(column(accepted), gradient, self.gradient)
        self.failed = torch.where(accepted | by_fire, torch.zeros_like(self.failed), self.failed + 1)
        self.unusable = torch.where(usable, torch.zeros_like(self.unusable), self.unusable + 1)
        self._change_method(frame, by_fire)
        last, last_gradient = self.trial, gradient
        self._propose()
        if bool((self.fire_left > 0).any()):
            self._propose_by_fire(last, last_gradient, usable & by_fire)
        return accepted

    def _propose(self) -> None:
        """trial = at − t B g with the largest t ≤ 1 that the radius allows."""
        newton = -(self.inverse @ self.gradient.flatten(1)[..., None]).view_as(self.gradient)
        self.scale = (self.radius / largest_row(newton).clamp_min(1e-300)).clamp_max(1.0)
        self.trial = self.at + column(self.scale) * newton

    def _propose_by_fire(self, last: torch.Tensor, gradient: torch.Tensor, moving: torch.Tensor) -> None:
        """FIRE goes on from its own last point, uphill or not; it starts from the accepted one."""
        point = torch.where(column(moving), last, self.at)
        move = self.inertia.step(torch.where(column(moving), gradient, self.gradient))
        self.trial = torch.where(column(self.fire_left > 0), point + move, self.trial)

    def _adapt_radius(
        self,
        step: torch.Tensor,
        rise: torch.Tensor,
        gradient: torch.Tensor,
        accepted: torch.Tensor,
        usable: torch.Tensor,
    ) -> None:
        slope = (self.gradient * step).sum(dim=(1, 2))
        promised = slope * (1 - self.scale / 2)
        # Near the minimum the energies' difference drowns in noise; the gradients' mean does not.
        mean_slope = 0.5 * ((self.gradient + gradient) * step).sum(dim=(1, 2))
        gained = torch.where(promised.abs() < 1e-3, mean_slope, rise) / promised.clamp_max(-1e-12)
        length = largest_row(step)
        grow = accepted & (gained > 0.75) & (self.scale < 1)
        shrink = accepted & (gained < 0.25)
        # Minimum of the parabola with this slope here and this rise there, in units of the step.
        bottom = (-slope / (2 * (rise - slope)).clamp_min(1e-12)).clamp(0.1, 0.5)
        bottom = torch.where(usable, bottom, torch.full_like(bottom, 0.25))
        radius = torch.where(accepted, self.radius, length * bottom)
        radius = torch.where(grow, radius * GROW, torch.where(shrink, radius * SHRINK, radius))
        self.radius = radius.clamp(SMALLEST_RADIUS, LARGEST_RADIUS)

    def _learn(self, step: torch.Tensor, change: torch.Tensor, rows: torch.Tensor) -> None:
        """Damped BFGS update of the inverse Hessian with a step s and the gradient's change y."""
        s, y = step.flatten(1), change.flatten(1)
        by_model = -self.scale[:, None] * self.gradient.flatten(1)  # H s
        model, measured = (s * by_model).sum(1), (s * y).sum(1)
        rows = rows & (model > 1e-14)

        ratio = measured / model.clamp_min(1e-14)
        first = rows & self.untouched & (ratio > 0)
        factor = torch.where(first, ratio.clamp(1 / LARGEST_RESCALING, LARGEST_RESCALING), 1.0)
        self.inverse = self.inverse / column(factor)
        by_model, model = by_model * factor[:, None], model * factor
        self.untouched = self.untouched & ~rows

        damped = measured < DAMPING * model
        theta = torch.where(damped, (1 - DAMPING) * model / (model - measured).clamp_min(1e-14), 1.0)
        y = theta[:, None] * y + (1 - theta)[:, None] * by_model
        rho = torch.where(rows, 1 / (s * y).sum(1), 0.0)
        by = (self.inverse @ y[..., None])[..., 0]  # B y
        weight = rho * (1 + rho * (y * by).sum(1))
        cross = rho[:, None, None] * s[:, :, None] * by[:, None, :]
        self.inverse = self.inverse - cross - cross.mT + column(weight) * s[:, :, None] * s[:, None, :]

    def _change_method(self, frame: Frame, by_fire: torch.Tensor) -> None:
        """Rebuild the Hessian, hand over to FIRE, or back."""
        self.fire_left = (self.fire_left - 1).clamp_min(0)
        to_fire = self.failed >= FIRE_AFTER
        back = by_fire & (self.fire_left == 0)
        rebuild = back | (self.failed == REBUILD_AFTER)
        if bool(to_fire.any()):
            self.fire_left = torch.where(to_fire, torch.full_like(self.fire_left, FIRE_STEPS), self.fire_left)
            self.failed = torch.where(to_fire, torch.zeros_like(self.failed), self.failed)
            self.inertia.put(to_fire, Inertia.at_rest(self.gradient[to_fire]))
        if bool(rebuild.any()):
            self.inverse[rebuild] = first_inverse(frame.part(rebuild), self.at[rebuild])
            self.untouched = self.untouched | rebuild
            self.radius = torch.where(back, torch.full_like(self.radius, FIRST_RADIUS), self.radius)


def first_inverse(frame: Frame, at: torch.Tensor) -> torch.Tensor:
    """Of the spring model, between symmetric changes only where symmetry is kept; updates leave it so.

    # [b, 3 (3 + m), 3 (3 + m)]
    """
    inverse = torch.linalg.inv(model_hessian(frame, at))
    return frame.projector @ inverse @ frame.projector if frame.symmetric else inverse

"""OMatG: a stochastic interpolant between random crystals and crystals, integrated as an ODE (Linear-ODE).

    f_t = f₀ + tΔ mod 1,  Δ = w1(f₁ − f₀)      coordinates, f₀ uniform; target C(Δ)
    L_t = (1 − t)L₀ + tL₁                      cell, Å; L₀ random; target L₁ − L₀

Lengths of base cells L₀ are log-normal as those of the data, angles uniform between 60° and 120°.
A network b(f_t, L_t, t) is fitted to the targets by least squares and followed from t = 0.001 to 0.999 in
Euler steps, with velocities multiplied by 1 + a·t ("annealing").

The velocity of the cell is (L₁ − L_t)/(1 − t): near t = 1 any error in what the network believes L₁ to be is
blown up, and such times rule the loss. The small model predicts ends instead of velocities (`target`): the
cell's six numbers, and C(Δ) damped by (1 − t)/(1 − t + 0.1). The flow is the same.
Reference: OMatG (Höllmer et al. 2025), CSP on MP-20; facts in docs/training-priors.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.models.base import Recipe, StructureModel
from anchor.models.cell_numbers import CellNumbers
from anchor.models.cells import (
    cell_shape,
    centre,
    from_lengths_and_angles,
    squared_volume_of_angles,
    wrap,
)
from anchor.models.data import Batch
from anchor.models.network import PUBLISHED, SMALL, CspNet, CspSize, sinusoids
from anchor.models.noise import Noise
from anchor.models.transitions import Trajectory

FIRST, LAST = 0.001, 0.999
DAMPING = 0.1
"""Part of the time before the end over which predicted drifts die off, for `target='end'`."""
ANGLES = (60.0, 120.0)
"""Degrees; angles of base cells."""
_FLATTEST = 0.02  # least (V/abc)² of a base cell: about 15 % of the cells of uniform angles are flatter
_TRIES = 16
_PAIRING_ROUNDS = 2
Velocity = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class OmatgSettings:
    """Everything that decides an OMatG model beside its weights.

    Attributes:
        size: Of the network.
        cell_features: What pairs see of the cell: 'gram' (G, Å², as published) or 'shape' (log lengths,
            cosines, log volume per atom: numbers of order one).
        time_scale: Factor of t before the sinusoids; 1 as published, where they hardly bend.
        pairing: 'none' as published for CSP, or 'nearest': base positions are shifted together and given to
            atoms of the same element so that paths are short.
        target: What the network predicts: 'velocity' as published, or 'end' (see the module).
        coordinate_weight, cell_weight: Of the loss; the cell's is of Å² or, for 'end', of cell numbers.
        coordinate_annealing, cell_annealing: Factors a of the sampler.
        steps: Euler steps of the sampler.
    """

    size: CspSize = PUBLISHED
    cell_features: Literal["gram", "shape"] = "gram"
    time_scale: float = 1.0
    pairing: Literal["none", "nearest"] = "none"
    target: Literal["velocity", "end"] = "velocity"
    coordinate_weight: float = 0.999415
    cell_weight: float = 0.000585
    coordinate_annealing: float = 10.1827
    cell_annealing: float = 1.8245
    steps: int = 209


SETTINGS = {
    "small": OmatgSettings(
        size=SMALL,
        cell_features="shape",
        time_scale=1000.0,
        pairing="nearest",
        target="end",
        coordinate_weight=1.0,
        cell_weight=0.02,
        steps=25,
    ),
    "published": OmatgSettings(),
}


class Omatg(StructureModel):
    """See the module."""

    name = "omatg"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Recipe(learning_rate=1.5e-3, batch_size=128, clip=0.5, ema=0.999, alike=16),
        "published": Recipe(learning_rate=6.690e-4, batch_size=1024, clip=0.5, ema=0.999, warmup=0),
    }
    log_length_mean: Tensor
    log_length_std: Tensor

    def __init__(self, settings: OmatgSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.term_weights = {"coordinates": settings.coordinate_weight, "cell": settings.cell_weight}
        self.default_steps = settings.steps
        features = 9 if settings.cell_features == "gram" else 7
        self.network = CspNet(settings.size, lattice_features=features, self_pairs=True)
        self.coordinate_head = nn.Linear(settings.size.hidden, 3, bias=False)
        self.cell_head = nn.Linear(settings.size.hidden, 6 if settings.target == "end" else 9, bias=False)
        self.cells = CellNumbers()
        # Of MP-20, until fit_statistics.
        self.register_buffer("log_length_mean", torch.tensor([1.5754, 1.7017, 1.9782]))
        self.register_buffer("log_length_std", torch.tensor([0.24438, 0.26526, 0.35355]))

    @classmethod
    def make(cls, size: CspSize | dict[str, Any], **settings: Any) -> Omatg:
        """From `settings()`."""
        size = CspSize(**size) if isinstance(size, dict) else size
        return cls(OmatgSettings(size=size, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def fit_statistics(self, crystals: Crystals) -> None:
        log_lengths = np.log(np.linalg.norm(crystals.lattice, axis=2))
        self.log_length_mean.copy_(torch.from_numpy(log_lengths.mean(axis=0)))
        self.log_length_std.copy_(torch.from_numpy(log_lengths.std(axis=0)))
        self.cells.fit(crystals)

    def entries(self, n: int) -> dict[str, int]:
        return {"coordinates": 3 * n, "cell": 6 if self.chosen.target == "end" else 9}

    # The interpolant

    def base_cells(self, normal: Tensor, uniform: Tensor) -> Tensor:
        """Cells L₀ of standard normal and uniform numbers: the first of 16 tries that is not flat.

        # [b, 3], [b, 16, 3] -> [b, 3, 3]
        """
        lengths = torch.exp(self.log_length_mean + self.log_length_std * normal)
        low, high = (math.radians(a) for a in ANGLES)
        angles = low + (high - low) * uniform
        first = (squared_volume_of_angles(angles) > _FLATTEST).float().argmax(dim=1)
        chosen = angles[torch.arange(len(angles), device=angles.device), first]
        return from_lengths_and_angles(lengths, chosen, least=_FLATTEST)

    def loss_sums(self, batch: Batch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        b, n = batch.numbers.shape
        frac0 = torch.rand(b, n, 3, generator=rng)
        cell0 = self.base_cells(torch.randn(b, 3, generator=rng), torch.rand(b, _TRIES, 3, generator=rng))
        if self.chosen.pairing == "nearest":
            frac0 = paired(frac0, batch)
        t = FIRST + (LAST - FIRST) * u
        path = wrap(batch.frac - frac0)
        frac = (frac0 + t[:, None, None] * path) % 1.0
        cell = torch.lerp(cell0, batch.lattice, t[:, None, None])
        if self.chosen.target == "end":
            damping = ((1 - t) / (1 - t + DAMPING))[:, None, None]
            drift, numbers = self.outputs(batch.numbers, t, frac, cell)
            return {
                "coordinates": ((drift - damping * centre(path)) ** 2).sum(),
                "cell": ((numbers - self.cells.encode(batch.lattice, n)) ** 2).sum(),
            }
        frac_velocity, cell_velocity = self.velocity(batch.numbers, t, frac, cell)
        # The authors minimise b² − 2 b·target: the same gradient, less a constant.
        return {
            "coordinates": ((frac_velocity - centre(path)) ** 2).sum(),
            "cell": ((cell_velocity - (batch.lattice - cell0)) ** 2).sum(),
        }

    def outputs(self, numbers: Tensor, t: Tensor, frac: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says: of coordinates [b, n, 3] and of cells [b, 6 or 9]. t is [b]."""
        time = sinusoids(self.chosen.time_scale * t, self.chosen.size.time_features)
        features = self._cell_features(cell, numbers.shape[1])
        atoms, push = self.network(numbers, time, frac, cell, features)
        drift = self.coordinate_head(atoms).to(frac.dtype) + push
        return drift, self.cell_head(atoms.mean(dim=1)).to(cell.dtype)

    def velocity(self, numbers: Tensor, t: Tensor, frac: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """b of coordinates [b, n, 3] and of cells [b, 3, 3], Å. t is [b]."""
        drift, answer = self.outputs(numbers, t, frac, cell)
        if self.chosen.target == "velocity":
            return drift, answer.view(-1, 3, 3) @ cell
        left = (1 - t)[:, None, None]
        end = self.cells.decode(answer, numbers.shape[1], least=_FLATTEST)
        return drift * (left + DAMPING) / left, (end - cell) / left

    def _cell_features(self, cell: Tensor, n: int) -> Tensor:
        if self.chosen.cell_features == "gram":
            return (cell @ cell.mT).flatten(1)
        return cell_shape(cell, n)

    # The sampler

    def generate(
        self,
        numbers: Tensor,
        noise: Noise,
        *,
        steps: int | None = None,
        recorder: Trajectory | None = None,
    ) -> tuple[Tensor, Tensor]:
        if recorder is not None:
            self.process(numbers)  # refuses: an ODE has no density
        frac = noise.uniform(numbers.shape[1], 3)
        cell = self.base_cells(noise.normal(3), noise.uniform(_TRIES, 3))
        return integrate(
            self.velocity,
            numbers,
            frac,
            cell,
            steps=steps or self.chosen.steps,
            annealing=(self.chosen.coordinate_annealing, self.chosen.cell_annealing),
            no_further=self.chosen.target == "end",
        )


def integrate(
    velocity: Velocity,
    numbers: Tensor,
    frac: Tensor,
    cell: Tensor,
    *,
    steps: int,
    annealing: tuple[float, float],
    no_further: bool = False,
) -> tuple[Tensor, Tensor]:
    """Euler steps x ← x + dt (1 + a t) b(x, t) of all fields together, t at the start of the step.

    Args:
        no_further: No step is longer than 1 − t: velocities that lead to an end never lead past it.
    """
    times = torch.linspace(FIRST, LAST, steps + 1, dtype=torch.float64).tolist()
    for t, after in pairwise(times):
        now = torch.full((len(numbers),), t, device=frac.device, dtype=frac.dtype)
        longest = 1 - t if no_further else math.inf
        frac_step, cell_step = (min((after - t) * (1 + a * t), longest) for a in annealing)
        frac_velocity, cell_velocity = velocity(numbers, now, frac, cell)
        frac = (frac + frac_step * frac_velocity) % 1.0
        cell = cell + cell_step * cell_velocity
    return frac, cell


def paired(frac0: Tensor, batch: Batch) -> Tensor:
    """Base positions moved as a whole and given to atoms of the same element so that Σ|Δ|² is small.

    Alternately the best common shift (circular mean) and the best assignment. A network that sees differences
    only, of atoms without order, cannot tell the new base from the old: both are uniform.
    """
    other = batch.numbers[:, :, None] != batch.numbers[:, None]
    for _ in range(_PAIRING_ROUNDS):
        angle = 2 * math.pi * (frac0 - batch.frac)
        shift = torch.atan2(angle.sin().mean(dim=1, keepdim=True), angle.cos().mean(dim=1, keepdim=True))
        frac0 = (frac0 - shift / (2 * math.pi)) % 1.0
        gap = wrap(batch.frac[:, :, None] - frac0[:, None])  # [b, atom, base position, 3]
        cost = ((gap**2).sum(-1) + 1e3 * other).cpu().numpy()
        order = torch.from_numpy(np.stack([linear_sum_assignment(c)[1] for c in cost])).to(frac0.device)
        frac0 = torch.gather(frac0, 1, order[:, :, None].expand(-1, -1, 3))
    return frac0

"""Crystalite: a transformer that denoises coordinates and cell together (EDM), sampled with Heun's method.

Coordinates x = f − ½ and the cell y = (ln Λ₁₁, Λ₂₁, ln Λ₂₂, Λ₃₁, Λ₃₂, ln Λ₃₃) of the Cholesky factor G = ΛΛᵀ
get Gaussian noise of one level σ per crystal, ln σ ~ N(−1.2, 1.2²); coordinates are not wrapped when noised.

    D = c_skip · noisy + c_out · net(c_in · y_σ, x_σ + ½ mod 1, ¼ ln σ)
    loss = λ(σ) |D − clean|², coordinate errors through w1

Reference: Crystalite; its released cell numbers are not standardised (`standardise=False`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from anchor.data.crystals import Crystals
from anchor.priors.learned.cells import wrap
from anchor.priors.learned.data import Batch
from anchor.priors.learned.model import Noise, Recipe, StructureModel
from anchor.priors.learned.transformer import PUBLISHED, SMALL, CrystalTransformer, TransformerSize

SIGMA_DATA = 0.3
SIGMA_MIN, SIGMA_MAX = 0.002, 80.0
RHO = 7.0
LOG_SIGMA_MEAN, LOG_SIGMA_STD = -1.2, 1.2
_DIAGONAL = [0, 2, 5]
_LARGEST_LOG, _LARGEST_SHEAR = 5.0, 10.0
Denoiser = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class CrystaliteSettings:
    """Everything that decides a Crystalite model beside its weights.

    Attributes:
        size: Of the network.
        standardise: Shift and scale each cell number to mean 0 and standard deviation σ_data.
        coordinate_weight, cell_weight: Of the loss.
        steps: Heun steps.
        churn, churn_noise: S_churn and S_noise of the sampler.
        annealing: ρ_a of anti-annealing of coordinates and cell; 0 for none.
    """

    size: TransformerSize = PUBLISHED
    standardise: bool = False
    coordinate_weight: float = 20.0
    cell_weight: float = 10.0
    steps: int = 400
    churn: float = 30.0
    churn_noise: float = 1.003
    annealing: tuple[float, float] = (4.0, 4.0)


SETTINGS = {
    # Few steps leave no room for anti-annealing: with γ = 0.4 it would step past the denoised crystal by more
    # than the distance to it (κ(1 − σ′/σ̂) > 2) and diverge.
    "small": CrystaliteSettings(size=SMALL, standardise=True, steps=50, churn=20.0, annealing=(0.0, 0.0)),
    "published": CrystaliteSettings(),
}


class Crystalite(StructureModel):
    """See the module."""

    name = "crystalite"
    moves_origin = True
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Recipe(
            optimiser="adamw", learning_rate=5e-4, batch_size=128, clip=1.0, warmup=500, alike=16
        ),
        "published": Recipe(
            optimiser="adamw",
            learning_rate=1e-4,
            batch_size=128,
            clip=1.0,
            ema=0.99999,
            warmup=1000,
            schedule="cosine",
        ),
    }
    cell_mean: Tensor
    cell_scale: Tensor

    def __init__(self, settings: CrystaliteSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.default_steps = settings.steps
        self.term_weights = {"coordinates": settings.coordinate_weight, "cell": settings.cell_weight}
        self.network = CrystalTransformer(settings.size)
        self.register_buffer("cell_mean", torch.zeros(6))
        self.register_buffer("cell_scale", torch.ones(6))

    @classmethod
    def make(cls, size: TransformerSize | dict[str, Any], **settings: Any) -> Crystalite:
        """From `settings()`."""
        size = TransformerSize(**size) if isinstance(size, dict) else size
        settings["annealing"] = tuple(settings["annealing"])
        return cls(CrystaliteSettings(size=size, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def entries(self, n: int) -> dict[str, int]:
        return {"coordinates": 3 * n, "cell": 6}

    # The cell as six numbers

    def fit_statistics(self, crystals: Crystals) -> None:
        if not self.chosen.standardise:
            return
        y = triangle(torch.from_numpy(np.linalg.cholesky(crystals.lattice @ crystals.lattice.mT)))
        self.cell_mean.copy_(y.mean(dim=0))
        self.cell_scale.copy_((y.std(dim=0, correction=0) / SIGMA_DATA).clamp(min=1e-3))

    def encode_cell(self, lattice: Tensor) -> Tensor:
        """y of cells in any orientation.  # [b, 3, 3] -> [b, 6]"""
        return (triangle(torch.linalg.cholesky(lattice @ lattice.mT)) - self.cell_mean) / self.cell_scale

    def decode_cell(self, y: Tensor) -> Tensor:
        """Lower triangular cells, Å, with log-diagonals within ±5 and shears within ±10.  # [b, 3, 3]"""
        return from_triangle(y * self.cell_scale + self.cell_mean)

    # Training

    def loss_sums(self, batch: Batch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        b, n = batch.numbers.shape
        x, y = batch.frac - 0.5, self.encode_cell(batch.lattice)
        # The normal number of quantile u, so that noise levels are even over the batch.
        sigma = torch.exp(LOG_SIGMA_MEAN + LOG_SIGMA_STD * torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6)))
        sigma = sigma.clamp(SIGMA_MIN, SIGMA_MAX)
        noisy_x = x + sigma[:, None, None] * torch.randn(b, n, 3, generator=rng)
        noisy_y = y + sigma[:, None] * torch.randn(b, 6, generator=rng)
        clean_x, clean_y = self.denoise(batch.numbers, noisy_x, noisy_y, sigma)
        weight = (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2  # λ(σ)
        return {
            "coordinates": (weight[:, None, None] * wrap(clean_x - x) ** 2).sum(),
            "cell": (weight[:, None] * (clean_y - y) ** 2).sum(),
        }

    def denoise(self, numbers: Tensor, x: Tensor, y: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """D(x, y; σ): clean coordinates [b, n, 3] and cell numbers [b, 6]. σ is [b]."""
        both = sigma**2 + SIGMA_DATA**2
        skip, out, scale = SIGMA_DATA**2 / both, sigma * SIGMA_DATA / both.sqrt(), 1 / both.sqrt()
        frac = (x + 0.5) % 1.0
        net_x, net_y = self.network(numbers, frac, scale[:, None] * y, self.decode_cell(y), sigma)
        return (
            skip[:, None, None] * x + out[:, None, None] * net_x,
            skip[:, None] * y + out[:, None] * net_y,
        )

    # Sampling

    def generate(self, numbers: Tensor, noise: Noise, *, steps: int | None = None) -> tuple[Tensor, Tensor]:
        x, y = heun(
            self.denoise,
            numbers,
            noise,
            steps=steps or self.chosen.steps,
            churn=self.chosen.churn,
            churn_noise=self.chosen.churn_noise,
            annealing=self.chosen.annealing,
        )
        return (x + 0.5) % 1.0, self.decode_cell(y)


def triangle(factor: Tensor) -> Tensor:
    """(ln Λ₁₁, Λ₂₁, ln Λ₂₂, Λ₃₁, Λ₃₂, ln Λ₃₃)  # [..., 3, 3] -> [..., 6]"""
    row, column = torch.tril_indices(3, 3)
    y = factor[..., row, column].clone()
    y[..., _DIAGONAL] = y[..., _DIAGONAL].log()
    return y


def from_triangle(y: Tensor) -> Tensor:
    """Λ of clamped numbers.  # [..., 6] -> [..., 3, 3]"""
    values = y.clamp(-_LARGEST_SHEAR, _LARGEST_SHEAR)
    values[..., _DIAGONAL] = y[..., _DIAGONAL].clamp(-_LARGEST_LOG, _LARGEST_LOG).exp()
    row, column = torch.tril_indices(3, 3)
    factor = y.new_zeros(*y.shape[:-1], 3, 3)
    factor[..., row, column] = values
    return factor


def noise_levels(steps: int, rho: float = RHO) -> Tensor:
    """σ_i = (σ_max^(1/ρ) + i/(K − 1) (σ_min^(1/ρ) − σ_max^(1/ρ)))^ρ, K of them, in double precision."""
    share = torch.linspace(0, 1, steps, dtype=torch.float64)
    high, low = SIGMA_MAX ** (1 / rho), SIGMA_MIN ** (1 / rho)
    return (high + share * (low - high)) ** rho


def anti_annealing(steps: int, rho: float) -> Tensor:
    """κ_i = max(1, |Δσ_i at ρ_a| / |Δσ_i at 7|), the last repeated; 1 for ρ_a = 0.  # [steps]"""
    if not rho or steps < 2:
        return torch.ones(steps, dtype=torch.float64)
    ratio = noise_levels(steps, rho).diff().abs() / noise_levels(steps).diff().abs()
    return torch.cat([ratio, ratio[-1:]]).clamp(min=1)


def heun(
    denoise: Denoiser,
    numbers: Tensor,
    noise: Noise,
    *,
    steps: int,
    churn: float,
    churn_noise: float,
    annealing: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """Heun steps from σ = 80 to 0 with added noise (churn); returns x = f − ½ and y."""
    n = numbers.shape[1]
    x, y = SIGMA_MAX * noise.normal(n, 3), SIGMA_MAX * noise.normal(6)
    levels = [*noise_levels(steps).tolist(), 0.0]
    kappa_x, kappa_y = (anti_annealing(steps, rho).tolist() for rho in annealing)
    gamma = min(churn / steps, math.sqrt(2) - 1)

    def slope(x: Tensor, y: Tensor, sigma: float, i: int) -> tuple[Tensor, Tensor]:
        """κ (x − D)/σ, coordinates by the nearest image."""
        clean_x, clean_y = denoise(numbers, x, y, torch.full((len(x),), sigma, device=x.device))
        return kappa_x[i] * wrap(x - clean_x) / sigma, kappa_y[i] * (y - clean_y) / sigma

    for i, (sigma, after) in enumerate(pairwise(levels)):
        raised = sigma * (1 + gamma)
        added = churn_noise * math.sqrt(raised**2 - sigma**2)
        x, y = x + added * noise.normal(n, 3), y + added * noise.normal(6)
        slope_x, slope_y = slope(x, y, raised, i)
        step = after - raised
        next_x, next_y = wrap(x + step * slope_x), y + step * slope_y
        if after > 0:
            again_x, again_y = slope(next_x, next_y, after, i)
            next_x = wrap(x + step * (slope_x + again_x) / 2)
            next_y = y + step * (slope_y + again_y) / 2
        x, y = next_x, next_y
    return x, y

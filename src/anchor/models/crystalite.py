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
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anchor.crystals.crystals import Crystals
from anchor.models.base import Recipe, StructureModel
from anchor.models.cells import paired, wrap
from anchor.models.data import Batch
from anchor.models.noise import Noise
from anchor.models.transformer import PUBLISHED, SMALL, CrystalTransformer, TransformerSize
from anchor.models.transitions import (
    Each,
    Gaussian,
    Process,
    State,
    Trajectory,
    Transition,
    beside,
    entry,
)

SIGMA_DATA = 0.3
SIGMA_MIN, SIGMA_MAX = 0.002, 80.0
RHO = 7.0
SCORED_NOISE = (0.2, 2.0)
"""Churn noise of the steps that rewards are given to (tab:ddpo-hparams): elsewhere densities tell little."""
_DIAGONAL = [0, 2, 5]
_LARGEST_LOG, _LARGEST_SHEAR = 5.0, 10.0
PERIODIC = "x"
"""The part of a state that is known up to whole numbers."""
Denoiser = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class CrystaliteSettings:
    """Everything that decides a Crystalite model beside its weights.

    Attributes:
        size: Of the network.
        standardise: Shift and scale each cell number to mean 0 and standard deviation σ_data.
        frame: Where training crystals have their origin: 'shifted' (anywhere, anew every time, as published)
            or 'canonical' (see `frames`).
        pairing: Which of the atoms of one element is which: 'none' as published, or 'nearest': noisy atoms
            belong to clean ones so that the displacements are small.
        answer: How the network answers for coordinates: 'line' as published, or 'circle' (see `on_circle`).
        log_sigma: Mean and standard deviation of ln σ in training.
        sigma_max: Where the sampler starts.
        coordinate_weight, cell_weight: Of the loss.
        steps: Heun steps.
        churn, churn_noise: S_churn and S_noise of the sampler.
        annealing: ρ_a of anti-annealing of coordinates and cell; 0 for none.
    """

    size: TransformerSize = PUBLISHED
    standardise: bool = False
    frame: Literal["shifted", "canonical"] = "shifted"
    pairing: Literal["none", "nearest"] = "none"
    answer: Literal["line", "circle"] = "line"
    log_sigma: tuple[float, float] = (-1.2, 1.2)
    sigma_max: float = 80.0
    coordinate_weight: float = 20.0
    cell_weight: float = 10.0
    steps: int = 400
    churn: float = 30.0
    churn_noise: float = 1.003
    annealing: tuple[float, float] = (4.0, 4.0)


SETTINGS = {
    # Few steps leave no room for anti-annealing: with γ = 0.4 it would step past the denoised crystal by more
    # than the distance to it (κ(1 − σ′/σ̂) > 2) and diverge.
    "small": CrystaliteSettings(
        size=SMALL,
        standardise=True,
        frame="canonical",
        pairing="nearest",
        answer="circle",
        sigma_max=1.0,
        steps=10,
        churn=4.0,
        annealing=(0.0, 0.0),
    ),
    "published": CrystaliteSettings(),
}


class Crystalite(StructureModel):
    """See the module."""

    name = "crystalite"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Recipe(
            optimiser="adamw", learning_rate=2e-3, batch_size=128, clip=1.0, warmup=200, alike=16
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
        self.frame = settings.frame
        self.term_weights = {"coordinates": settings.coordinate_weight, "cell": settings.cell_weight}
        self.network = CrystalTransformer(
            settings.size, coordinate_outputs=3 if settings.answer == "line" else 9
        )
        self.register_buffer("cell_mean", torch.zeros(6))
        self.register_buffer("cell_scale", torch.ones(6))

    @classmethod
    def make(cls, size: TransformerSize | dict[str, Any], **settings: Any) -> Crystalite:
        """From `settings()`."""
        size = TransformerSize(**size) if isinstance(size, dict) else size
        for name in ("annealing", "log_sigma"):
            if name in settings:  # JSON has no tuples
                settings[name] = tuple(settings[name])
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
        sigma, noisy, clean = self.noised_batch(batch, u, rng)
        x, y = self.denoise(batch.numbers, noisy["x"], noisy["y"], sigma)
        return self.errors({"x": x, "y": y}, clean, sigma)

    def noised_batch(self, batch: Batch, u: Tensor, rng: torch.Generator) -> tuple[Tensor, State, State]:
        """Noise levels [b], noisy x and y, and the clean ones."""
        b, n = batch.numbers.shape
        x, y = batch.frac - 0.5, self.encode_cell(batch.lattice)
        sigma = self.noise_level(u)
        noisy_x = x + sigma[:, None, None] * torch.randn(b, n, 3, generator=rng)
        if self.chosen.pairing == "nearest":
            x = paired(batch.numbers, x, noisy_x)
        noisy_y = y + sigma[:, None] * torch.randn(b, 6, generator=rng)
        return sigma, {"x": noisy_x, "y": noisy_y}, {"x": x, "y": y}

    def noise_level(self, u: Tensor) -> Tensor:
        """σ at quantile u, so that noise levels are even over the batch.  # [b]"""
        mean, std = self.chosen.log_sigma
        sigma = torch.exp(mean + std * torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6)))
        return sigma.clamp(SIGMA_MIN, SIGMA_MAX)

    def errors(self, found: State, clean: State, sigma: Tensor) -> dict[str, Tensor]:
        """λ(σ) times squared errors, summed."""
        weight = loss_weight(sigma)
        return {
            "coordinates": (weight[:, None, None] * wrap(found["x"] - clean["x"]) ** 2).sum(),
            "cell": (weight[:, None] * (found["y"] - clean["y"]) ** 2).sum(),
        }

    def denoise(self, numbers: Tensor, x: Tensor, y: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """D(x, y; σ): clean coordinates [b, n, 3] and cell numbers [b, 6]. σ is [b]."""
        return self.denoise_with_atoms(numbers, x, y, sigma)[:2]

    def denoise_with_atoms(
        self, kinds: Tensor, x: Tensor, y: Tensor, sigma: Tensor, extra: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`denoise`, and the features of the atoms, [b, n, width], for further heads.

        Args:
            kinds: Atomic numbers [b, n], or chances of them [b, n, 101].
            extra: Added to the tokens of the atoms.  # [b, n, width]
        """
        skip, out, scale = preconditioning(sigma)
        frac = (x + 0.5) % 1.0
        net_x, net_y, atoms = self.network(
            kinds, frac, scale[:, None] * y, self.decode_cell(y), sigma, extra=extra
        )
        skip_x, out_x = skip[:, None, None], out[:, None, None]
        if self.chosen.answer == "line":
            clean_x = skip_x * x + out_x * net_x
        else:
            clean_x = x + on_circle(x, net_x, skip_x.sqrt(), out_x)
        return clean_x, skip[:, None] * y + out[:, None] * net_y, atoms

    # Sampling

    def generate(
        self,
        numbers: Tensor,
        noise: Noise,
        *,
        steps: int | None = None,
        recorder: Trajectory | None = None,
    ) -> tuple[Tensor, Tensor]:
        end = self.process(numbers, steps=steps).run(noise, recorder)
        return (end["x"] + 0.5) % 1.0, self.decode_cell(end["y"])

    def process(self, numbers: Tensor, *, steps: int | None = None) -> Heun:
        return Heun(
            self.denoise,
            numbers,
            steps or self.chosen.steps,
            churn=self.chosen.churn,
            churn_noise=self.chosen.churn_noise,
            annealing=self.chosen.annealing,
            sigma_max=self.chosen.sigma_max,
        )

    def informative(self, trajectory: Trajectory) -> list[int]:
        return self.process(trajectory.numbers, steps=len(trajectory)).informative(trajectory)


def preconditioning(sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """c_skip, c_out and c_in.  # [b] each"""
    both = sigma**2 + SIGMA_DATA**2
    return SIGMA_DATA**2 / both, sigma * SIGMA_DATA / both.sqrt(), 1 / both.sqrt()


def loss_weight(sigma: Tensor) -> Tensor:
    """λ(σ) = (σ² + σ_d²)/(σ σ_d)²  # [b]"""
    return (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2


def on_circle(x: Tensor, answer: Tensor, skip: Tensor, out: Tensor) -> Tensor:
    """How far each coordinate has to go, in (−½, ½], from an answer that knows the ends of a cell are one.

    A coordinate is a point e^(2πi x) of the unit circle. The answer has a place p in the plane and a step q
    along the circle; the clean coordinate is the direction of
        skip · e^(2πi x) + 2π out · (p + i q e^(2πi x))
    With much noise p decides (an atom that is always at the origin needs a constant p; as a displacement from
    x it would be a sawtooth), with little noise q does, as in the published D.
    # [b, n, 3], [b, n, 9], [b, 1, 1], [b, 1, 1] -> [b, n, 3]
    """
    along, across, step = answer.chunk(3, dim=-1)
    angle = 2 * math.pi * x
    cos, sin = angle.cos(), angle.sin()
    # Turned back by the angle of x, so that the result is the displacement.
    real = skip + 2 * math.pi * out * (along * cos + across * sin)
    imaginary = 2 * math.pi * out * (across * cos - along * sin + step)
    return torch.atan2(imaginary, real) / (2 * math.pi)


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


def noise_levels(steps: int, rho: float = RHO, sigma_max: float = SIGMA_MAX) -> Tensor:
    """σ_i = (σ_max^(1/ρ) + i/(K − 1) (σ_min^(1/ρ) − σ_max^(1/ρ)))^ρ, K of them, in double precision."""
    share = torch.linspace(0, 1, steps, dtype=torch.float64)
    high, low = sigma_max ** (1 / rho), SIGMA_MIN ** (1 / rho)
    return (high + share * (low - high)) ** rho


def anti_annealing(steps: int, rho: float, sigma_max: float = SIGMA_MAX) -> Tensor:
    """κ_i = max(1, |Δσ_i at ρ_a| / |Δσ_i at 7|), the last repeated; 1 for ρ_a = 0.  # [steps]"""
    if not rho or steps < 2:
        return torch.ones(steps, dtype=torch.float64)
    usual = noise_levels(steps, sigma_max=sigma_max)
    ratio = noise_levels(steps, rho, sigma_max).diff().abs() / usual.diff().abs()
    return torch.cat([ratio, ratio[-1:]]).clamp(min=1)


class Heun(Process):
    """Heun steps from σ_max to 0 with added noise (churn).

    A step adds noise and then follows the network. Cut after the noise, it is a Gaussian around where the
    network led: a state is x = f − ½ and y at σ̂_i = (1 + γ)σ_i, reached from σ_i by noise of
    s_i = S_noise √(σ̂_i² − σ_i²). The last transition ends at σ = 0 and adds none.

    Args:
        denoise: D(x, y; σ).
        numbers: Atomic numbers.  # [b, n]
        steps: K.
        churn, churn_noise: S_churn and S_noise; γ = min(S_churn/K, √2 − 1).
        annealing: ρ_a of coordinates and cell.
        sigma_max: Where to start.
    """

    def __init__(
        self,
        denoise: Denoiser,
        numbers: Tensor,
        steps: int,
        *,
        churn: float,
        churn_noise: float,
        annealing: tuple[float, float],
        sigma_max: float = SIGMA_MAX,
    ) -> None:
        self.denoise, self.numbers, self.steps, self.sigma_max = denoise, numbers, steps, sigma_max
        self.levels = [*noise_levels(steps, sigma_max=sigma_max).tolist(), 0.0]
        gamma = min(churn / steps, math.sqrt(2) - 1)
        self.raised = [sigma * (1 + gamma) for sigma in self.levels]
        self.added = [
            churn_noise * math.sqrt(high**2 - low**2)
            for high, low in zip(self.raised, self.levels, strict=True)
        ]
        self.kappa = {
            name: anti_annealing(steps, rho, sigma_max).tolist()
            for name, rho in zip(("x", "y"), annealing, strict=True)
        }

    def start(self, noise: Noise) -> State:
        return self.churned(self.noise(noise), 0).draw(noise)

    def noise(self, noise: Noise) -> State:
        """Coordinates and cell at σ_max."""
        n = self.numbers.shape[1]
        x, y = self.sigma_max * noise.normal(n, 3), self.sigma_max * noise.normal(6)
        if self.sigma_max < SIGMA_MAX:  # not all is noise yet: the spread of noisy data
            y = y * math.sqrt(1 + (SIGMA_DATA / self.sigma_max) ** 2)
        return {"x": x, "y": y}

    def informative(self, trajectory: Trajectory) -> list[int]:
        """Steps that end with as much noise as rewards are given to."""
        low, high = SCORED_NOISE
        return [i for i in trajectory.scored if low <= self.added[i + 1] <= high]

    def clean(self, state: State, sigma: Tensor) -> State:
        """D: the clean parts of a noisy state. σ is [b]."""
        x, y = self.denoise(self.numbers, state["x"], state["y"], sigma)
        return {"x": x, "y": y}

    def transition(self, i: int | Tensor, state: State) -> Transition:
        """x̂' = Φ(x̂) + s ξ"""
        before, after = entry(self.raised, i), entry(self.levels, i + 1)
        slope = self._slope(state, before, i)
        step = after - before
        there = {
            name: _wrapped(name, part + beside(step, part) * slope[name]) for name, part in state.items()
        }
        if isinstance(i, Tensor) or i < self.steps - 1:  # many at once have noise ahead, all of them
            again = self._slope(there, after, i)
            there = {
                name: _wrapped(name, part + beside(step, part) * (slope[name] + again[name]) / 2)
                for name, part in state.items()
            }
        return self.churned(there, i + 1)

    def churned(self, state: State, i: int | Tensor) -> Transition:
        """Noise that leads from σ_i to σ̂_i."""
        added = entry(self.added, i)
        return Transition(
            {name: Gaussian(part, added, periodic=name == PERIODIC) for name, part in state.items()}
        )

    def _slope(self, state: State, sigma: Each, i: int | Tensor) -> State:
        """κ (x − D)/σ, coordinates by the nearest image."""
        x = state[PERIODIC]
        clean = self.clean(state, torch.as_tensor(sigma, dtype=x.dtype, device=x.device).expand(len(x)))
        return {
            name: beside(self._kappa(name, i), part)
            * _wrapped(name, part - clean[name])
            / beside(sigma, part)
            for name, part in state.items()
        }

    def _kappa(self, name: str, i: int | Tensor) -> Each:
        return entry(self.kappa[name], i) if name in self.kappa else 1.0


def _wrapped(name: str, value: Tensor) -> Tensor:
    return wrap(value) if name == PERIODIC else value

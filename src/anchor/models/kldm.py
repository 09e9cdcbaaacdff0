"""KLDM: kinetic Langevin diffusion. Atoms get velocities, and noise acts on the velocities only.

Coordinates r = 2πf in radians, time s = 2t, v₀ = 0:

    dr = v ds,   dv = −v ds + √2 dW

All noise is centred, so the centre of mass of the crystal rests. In closed form
    v_s = σ_v ε_v,  σ_v² = 1 − e^(−2s)
    r_s = r₀ + μ + σ_r ε_r,  μ = tanh(s/2) v_s,  σ_r² = 2s − 4 tanh(s/2)
The network learns C(g)/√λ(s), where g = ∂_μ log WN(r_s − r₀; μ, σ_r²) and λ = E[g²]; the score of the
velocity is S = −v_s/σ_v² + tanh(s/2) g. The cell, six standardised numbers l, follows a variance-preserving
diffusion in t, and the network predicts l itself.

Given r_s and v_s, all that is known of r₀ is in r_s − μ = r₀ + σ_r ε_r: the velocity says nothing more. The
published network sees r_s and v_s and has to find that out; the small one sees r_s − μ (`view='denoiser'`),
in a network like omatg's that answers with the displacement of every atom. It can begin as a trained omatg.
Reference: KLDM (Cornet et al. 2025); the paper's sampler is Euler–Maruyama with 50 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.models.base import Recipe, StructureModel
from anchor.models.cell_numbers import CellNumbers
from anchor.models.cells import cell_shape, centre, paired
from anchor.models.data import Batch
from anchor.models.network import PUBLISHED, SMALL, CspNet, CspSize, FourierTime, sinusoids
from anchor.models.noise import Noise
from anchor.models.omatg import Omatg
from anchor.models.transitions import Gaussian, Process, State, Trajectory, Transition, number

FIRST = 0.001
"""Smallest model time."""
SPAN = 2.0
"""s at t = 1, as published."""
FLOOR = 1e-6
"""Added to the variances of velocity and coordinates."""
_WINDINGS = torch.arange(-13, 14, dtype=torch.float64) * (2 * math.pi)
_TAU = 0.25  # step of the corrector
FINEST = 0.25
"""Radians; noise below which the network of `view='denoiser'` answers relative to it, not absolutely."""
PUBLISHED_NOISE = 1.0
"""Factor of the noise in the reverse steps, as published."""
Net = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


# The process, one function per formula.


def wrap_angle(x: Tensor) -> Tensor:
    """wπ: the angle in (−π, π]."""
    return torch.atan2(x.sin(), x.cos())


def velocity_variance(s: Tensor) -> Tensor:
    """σ_v² = 1 − e^(−2s) + 1e-6"""
    return -torch.expm1(-2 * s) + FLOOR


def coordinate_variance(s: Tensor) -> Tensor:
    """σ_r² = 2s − 4 tanh(s/2) + 1e-6, by its series for small s, where the difference loses all digits."""
    series = s**3 / 6 * (1 - s**2 / 10 + 17 * s**4 / 1680)
    return torch.where(s < 0.3, series, 2 * s - 4 * torch.tanh(s / 2)) + FLOOR


def wrapped_score(distance: Tensor, variance: Tensor) -> Tensor:
    """g = +∂_μ log WN(δ; μ, σ²) at distance = δ − μ, with 27 windings."""
    d = distance[..., None] + _WINDINGS.to(distance)
    weight = torch.softmax(-(d**2) / (2 * variance[..., None]), dim=-1)
    return (weight * d).sum(-1) / variance


@cache
def _score_scale_table(span: float) -> Tensor:
    """ln λ at t = 0, 1/2000, …, 1, by quadrature in double precision.  # [2001]

    The trapezoidal rule is exact to rounding here: the integrand has died off at the ends or is periodic.
    """
    s = torch.linspace(0, span, 2001, dtype=torch.float64)
    variance = coordinate_variance(s)[:, None]
    reach = torch.clamp(12 * variance.sqrt(), max=math.pi)
    x = torch.linspace(-1, 1, 241, dtype=torch.float64) * reach
    windings = (x[..., None] + _WINDINGS) ** 2 / (2 * variance[..., None])
    density = torch.exp(-windings).sum(-1)
    score = wrapped_score(x, variance.expand_as(x))
    return torch.log(torch.trapezoid(density * score**2, x) / torch.trapezoid(density, x))


def score_scale(t: Tensor, span: float = SPAN) -> Tensor:
    """λ(s) = E[g²] for δ ~ WN(0, σ_r²) at s = span · t, interpolated in its logarithm."""
    table = _score_scale_table(span).to(t)
    position = (t * (len(table) - 1)).clamp(0, len(table) - 1)
    below = position.floor().long().clamp(max=len(table) - 2)
    return torch.exp(torch.lerp(table[below], table[below + 1], position - below))


def beta(t: Tensor) -> Tensor:
    """Rate of the cell's noise: 0.1 + 19.9 t."""
    return 0.1 + 19.9 * t


def cell_signal(t: Tensor) -> tuple[Tensor, Tensor]:
    """α = exp(−½∫β) and σ = √(1 − α²)."""
    spent = 0.1 * t + 9.95 * t**2
    return torch.exp(-0.5 * spent), torch.sqrt(-torch.expm1(-spent))


@dataclass(frozen=True)
class KldmSettings:
    """Everything that decides a KLDM model beside its weights.

    Attributes:
        size: Of the network.
        sampler: 'em' (Euler–Maruyama, the paper's) or 'pc' (predictor–corrector, two calls per step).
        cell_step: Of the em sampler: 'em', or 'exact', which integrates the noise exactly for a constant
            prediction of the clean cell and so does not overshoot in the last step (gain 1.6 at 50 steps).
        steps: Of the sampler.
        span: s = span · t. With the published 2, atoms at t = 1 are still near their places (a wrapped normal
            of 0.196 cells), though sampling starts anywhere; with 4 they are all but anywhere (0.36).
        view: What the network sees and answers: 'published', or 'denoiser' (see the module).
        pairing: Which of the atoms of one element is which: 'none' as published, or 'nearest', see
            `crystalite`; for the view 'denoiser'.
        noise: Factor of the noise in the reverse steps of the velocity; 1 as published.
    """

    size: CspSize = PUBLISHED
    sampler: Literal["em", "pc"] = "em"
    cell_step: Literal["em", "exact"] = "em"
    steps: int = 50
    span: float = SPAN
    view: Literal["published", "denoiser"] = "published"
    pairing: Literal["none", "nearest"] = "none"
    noise: float = PUBLISHED_NOISE


SETTINGS = {
    "small": KldmSettings(
        size=SMALL,
        cell_step="exact",
        steps=25,
        span=4.0,
        view="denoiser",
        pairing="nearest",
        noise=0.0,
    ),
    "published": KldmSettings(),
}


class Kldm(StructureModel):
    """See the module."""

    name = "kldm"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Recipe(
            optimiser="amsgrad", learning_rate=1e-3, weight_decay=1e-12, batch_size=128, clip=1.0, alike=16
        ),
        "published": Recipe(
            optimiser="amsgrad", learning_rate=1e-3, weight_decay=1e-12, batch_size=256, clip=0.0, warmup=0
        ),
    }
    term_weights: Mapping[str, float] = {"velocity": 0.5, "cell": 0.5}

    def __init__(self, settings: KldmSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.default_steps = settings.steps
        hidden = settings.size.hidden
        self.velocity_head: nn.Module
        if settings.view == "published":
            self.time = FourierTime(settings.size.time_features)
            self.network = CspNet(settings.size, lattice_features=6, self_pairs=False, velocities=True)
            self.velocity_head = nn.Sequential(
                nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 3, bias=False)
            )
        else:
            self.network = CspNet(settings.size, lattice_features=7, self_pairs=True)
            self.velocity_head = nn.Linear(hidden, 3, bias=False)
        self.cell_head = nn.Linear(hidden, 6, bias=False)
        self.cells = CellNumbers()

    @classmethod
    def make(cls, size: CspSize | dict[str, Any], **settings: Any) -> Kldm:
        """From `settings()`."""
        size = CspSize(**size) if isinstance(size, dict) else size
        return cls(KldmSettings(size=size, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def entries(self, n: int) -> dict[str, int]:
        return {"velocity": 3 * n, "cell": 6}

    def fit_statistics(self, crystals: Crystals) -> None:
        self.cells.fit(crystals)

    @torch.no_grad()
    def begin_as(self, other: Omatg) -> None:
        """Take over what a trained omatg knows: its network and, where both answer alike, its heads."""
        self.network.begin_as(other.network)
        if self.chosen.view == "denoiser" and other.chosen.target == "end":
            self.network.load_state_dict(other.network.state_dict())
            self.velocity_head.load_state_dict(other.coordinate_head.state_dict())
            self.cell_head.load_state_dict(other.cell_head.state_dict())

    # Training

    def loss_sums(self, batch: Batch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        t, state, target, clean = self.noised_batch(batch, u, rng)
        prediction, cell = self.predict(batch.numbers, t, *(state[name] for name in "rvl"))
        return {"velocity": ((prediction - target) ** 2).sum(), "cell": ((cell - clean) ** 2).sum()}

    def noised_batch(
        self, batch: Batch, u: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, State, Tensor, Tensor]:
        """Times [b], noisy r, v and l, and what the network should say: scaled scores and clean cells."""
        b, n = batch.numbers.shape
        t = FIRST + (1 - FIRST) * u
        s = self.chosen.span * t[:, None, None]
        r0 = 2 * math.pi * batch.frac
        noise_v = centre(torch.randn(b, n, 3, generator=rng))
        noise_r = centre(torch.randn(b, n, 3, generator=rng))
        v, r, g = noised(r0, s, noise_v, noise_r)
        if self.chosen.pairing == "nearest":
            seen = r - torch.tanh(s / 2) * v
            r0 = 2 * math.pi * paired(batch.numbers, batch.frac, seen / (2 * math.pi))
            g = wrapped_score(wrap_angle(seen - r0), coordinate_variance(s).expand_as(seen))
        target = centre(g) / score_scale(t, self.chosen.span)[:, None, None].sqrt()
        clean = self.cells.encode(batch.lattice, n)
        alpha, sigma = cell_signal(t[:, None])
        noisy = alpha * clean + sigma * torch.randn(b, 6, generator=rng)
        return t, {"r": r, "v": v, "l": noisy}, target, clean

    def predict(self, numbers: Tensor, t: Tensor, r: Tensor, v: Tensor, l: Tensor) -> tuple[Tensor, Tensor]:
        """The network: scaled score of coordinates [b, n, 3], clean cell numbers [b, 6]."""
        return self.predict_with_atoms(numbers, t, r, v, l)[:2]

    def predict_with_atoms(
        self, numbers: Tensor, t: Tensor, r: Tensor, v: Tensor, l: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`predict`, and the features of the atoms, [b, n, hidden], for further heads."""
        n = numbers.shape[1]
        shown = self.chosen.size.shells or self.chosen.view == "denoiser"
        cell = self.cells.decode(l, n, least=0.02) if shown else l.new_zeros(len(l), 3, 3)
        if self.chosen.view == "published":
            atoms, push = self.network(numbers, self.time(t), r / (2 * math.pi), cell, l, v / (2 * math.pi))
            gain = torch.ones_like(t)[:, None, None]
        else:
            s = (self.chosen.span * t)[:, None, None]
            spread = coordinate_variance(s).sqrt()
            # Noise as a share of the way, as omatg counts time; it pairs random places with atoms, of which
            # the displacements are about 0.2 cells.
            z = spread[:, 0, 0] / (2 * math.pi * 0.2)
            time = sinusoids(1000 * (1 - z / torch.sqrt(1 + z**2)), self.chosen.size.time_features)
            places = (r - torch.tanh(s / 2) * v) / (2 * math.pi)
            atoms, push = self.network(numbers, time, places, cell, cell_shape(cell, n))
            gain = -2 * math.pi / torch.sqrt(spread**2 + FINEST**2)  # from displacements to ε_r
        score = self.velocity_head(atoms).to(r.dtype) + push
        return centre(gain * score), self.cell_head(atoms.mean(dim=1)).to(l.dtype), atoms

    # Sampling

    def generate(
        self,
        numbers: Tensor,
        noise: Noise,
        *,
        steps: int | None = None,
        recorder: Trajectory | None = None,
    ) -> tuple[Tensor, Tensor]:
        if self.chosen.sampler == "pc" and recorder is None:
            r, l = predictor_corrector(
                self.predict, numbers, noise, steps=steps or self.chosen.steps, span=self.chosen.span
            )
        else:
            end = self.process(numbers, steps=steps).run(noise, recorder)
            r, l = end["r"], end["l"]
        return (r / (2 * math.pi)) % 1.0, self.cells.decode(l, numbers.shape[1])

    def process(self, numbers: Tensor, *, steps: int | None = None) -> Process:
        if self.chosen.sampler == "pc":
            return super().process(numbers)  # refuses: its predictor is deterministic
        return EulerMaruyama(
            self.predict,
            numbers,
            steps or self.chosen.steps,
            cell_step=self.chosen.cell_step,
            span=self.chosen.span,
            heat=self.chosen.noise,
        )


def noised(r0: Tensor, s: Tensor, noise_v: Tensor, noise_r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Velocity, coordinates (radians) at time s, and the score g of the coordinates' displacement."""
    v = velocity_variance(s).sqrt() * noise_v
    mu = torch.tanh(s / 2) * v
    variance = coordinate_variance(s)
    shift = wrap_angle(mu + variance.sqrt() * noise_r)
    g = wrapped_score(shift - wrap_angle(mu), variance.expand_as(shift))
    return v, wrap_angle(r0 + shift), g


def velocity_score(t: Tensor, v: Tensor, prediction: Tensor, span: float = SPAN) -> Tensor:
    """Ŝ = −v/σ_v² + tanh(s/2) √λ · network"""
    s = span * t
    return -v / velocity_variance(s) + torch.tanh(s / 2) * score_scale(t, span).sqrt() * prediction


def _start(numbers: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    n = numbers.shape[1]
    r = 2 * math.pi * noise.uniform(n, 3) - math.pi
    return r, centre(noise.normal(n, 3)), noise.normal(6)


class EulerMaruyama(Process):
    """The reverse process in K equal steps from t = 1 to 0.001.

    A state is r, radians, velocities v and cell numbers l. Velocities and cell are drawn; the coordinates
    follow the new velocities.

    Args:
        net: Scaled score of coordinates and clean cell numbers, at the time of each crystal.
        numbers: Atomic numbers.  # [b, n]
        steps: K.
        cell_step: See `KldmSettings`.
        span: s = span · t.
        heat: Factor of the noise of the velocity; less than 1 is no exact reversal.
    """

    def __init__(
        self,
        net: Net,
        numbers: Tensor,
        steps: int,
        *,
        cell_step: str,
        span: float = SPAN,
        heat: float = 1.0,
    ) -> None:
        self.net, self.numbers, self.steps = net, numbers, steps
        self.cell_step, self.span, self.heat = cell_step, span, heat
        self.times = _times(numbers, steps)

    def start(self, noise: Noise) -> State:
        return dict(zip("rvl", _start(self.numbers, noise), strict=True))

    def transition(self, i: int | Tensor, state: State) -> Transition:
        """v' = e^h v + 2(e^h − 1)Ŝ + √(e^(2h) − 1) C(ξ);  r' = wπ(r − h v')"""
        every = self.times[i].expand(len(self.numbers))
        return self.towards(i, state, *self.net(self.numbers, every, *(state[name] for name in "rvl")))

    def towards(self, i: int | Tensor, state: State, prediction: Tensor, clean: Tensor) -> Transition:
        """Step i, given what the network said."""
        now, then = self.times[i], self.times[i + 1]
        t, after = (time[..., None, None] for time in (now, then))
        h = self.span * (t - after)
        r, v, l = (state[name] for name in "rvl")
        score = velocity_score(t, v, prediction, self.span)
        velocity = Gaussian(
            torch.exp(h) * v + 2 * torch.expm1(h) * score,
            number(self.heat * torch.expm1(2 * h[..., 0, 0]).sqrt()),
            centred=True,
        )
        cell = _cell_step(l, clean, now, then, exact=self.cell_step == "exact")

        def follow(drawn: State) -> State:
            return {"r": wrap_angle(r - h * drawn["v"]), **drawn}

        return Transition({"v": velocity, "l": cell}, follow)


def _cell_step(l: Tensor, clean: Tensor, t: Tensor, after: Tensor, *, exact: bool) -> Gaussian:
    """Of the cell numbers: l' = l + (½βl + βq)Δ + √(βΔ) ξ, or exactly for a constant prediction.

    # [b, 6], [b, 6], [] or [b], [] or [b]
    """
    t, after = t[..., None], after[..., None]
    alpha, sigma = cell_signal(t)
    q = (alpha * clean - l) / sigma**2
    if not exact:
        step = t - after
        std = (beta(t) * step).sqrt()
        return Gaussian(l + (0.5 * beta(t) * l + beta(t) * q) * step, number(std[..., 0]))
    alpha1, sigma1 = cell_signal(after)
    gain = torch.log(alpha1 / sigma1) - torch.log(alpha / sigma)
    mean = alpha1 / alpha * l + 2 * sigma * sigma1 * torch.sinh(gain) * q
    std = sigma1 * (-torch.expm1(-2 * gain)).sqrt()
    return Gaussian(mean, number(std[..., 0]))


def _times(numbers: Tensor, steps: int) -> Tensor:
    """From 1 down to 0.001.  # [steps + 1]"""
    return torch.linspace(1, FIRST, steps + 1, dtype=torch.float64).float().to(numbers.device)


def predictor_corrector(
    net: Net, numbers: Tensor, noise: Noise, *, steps: int, span: float = SPAN
) -> tuple[Tensor, Tensor]:
    """One Langevin step at fixed time, then one deterministic step, K times; returns r, radians, and l."""
    r, v, l = _start(numbers, noise)
    n = numbers.shape[1]
    for t, after in pairwise(_times(numbers, steps)):
        h = span * (t - after)
        alpha, sigma = cell_signal(t)

        prediction, clean = net(numbers, t.expand(len(numbers)), r, v, l)
        score = velocity_score(t, v, prediction, span)
        q = (alpha * clean - l) / sigma**2
        d = _TAU / (score**2).mean(dim=(1, 2), keepdim=True).clamp(min=1e-12)
        if n > 1:  # a single atom has no velocity
            v = v + d * score + (2 * d).sqrt() * centre(noise.normal(n, 3))
        r = wrap_angle(r - h * v)
        d = _TAU / (q**2).mean(dim=1, keepdim=True).clamp(min=1e-12)
        l = l + d * q + (2 * d).sqrt() * noise.normal(6)

        prediction, clean = net(numbers, t.expand(len(numbers)), r, v, l)
        score = velocity_score(t, v, prediction, span)
        q = (alpha * clean - l) / sigma**2
        wide, narrow = (velocity_variance(span * x).sqrt() for x in (t, after))
        v = torch.exp(h) * v + (torch.exp(h) * wide - narrow) * wide * score
        r = wrap_angle(r - h * v)
        alpha1, sigma1 = cell_signal(after)
        l = alpha1 / alpha * l + (alpha1 / alpha * sigma - sigma1) * sigma * q
    return r, l

"""Crystalite-DNG: the denoiser of `crystalite`, for vectors of elements beside coordinates and cell.

Every element has a unit vector of 16 numbers (`types.element_vectors`). The vectors z of a crystal's atoms
get noise of the same level σ as coordinates and cell, and the network sees of them: chances of elements given
the noisy vector alone,
    p(e | z_σ) ∝ share of e · exp(−|z_σ − v_e|² / 2σ²)
through the element embedding of `crystalite` (averaged), and the noisy vector itself. As published it answers
D = c_skip z + c_out net ('line'); the small one answers chances p(e | all noisy parts), D = Σ p(e) v_e
('expected'), which start at the chances above: with little noise the answer is certain without learning.
Counts and ranks of elements (`Roles`) are those to be expected by the chances: nothing that the network sees
knows the clean elements, and the noise of coordinates and cell does not either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.models.base import JointModel, Recipe, TrainableModel
from anchor.models.crystalite import SETTINGS as CSP_SETTINGS
from anchor.models.crystalite import Crystalite, CrystaliteSettings, Heun, loss_weight, preconditioning
from anchor.models.data import Batch
from anchor.models.noise import Noise
from anchor.models.transformer import PUBLISHED, mlp, zeroed
from anchor.models.transitions import State, Trajectory
from anchor.models.types import LATENT, Marginals, TypeHead, element_vectors


@dataclass(frozen=True)
class CrystaliteDngSettings:
    """Everything that decides a Crystalite-DNG model beside its weights.

    Attributes:
        csp: Of the process and network of coordinates and cell, with the weights of their losses.
        answer: How the network answers for elements, 'line' as published or 'expected'; see the module.
        type_weight: Of the loss of elements: λ(σ)-weighted squares for 'line', −ln p(e) for 'expected'.
    """

    csp: CrystaliteSettings = field(default_factory=CrystaliteSettings)
    answer: Literal["line", "expected"] = "line"
    type_weight: float = 16.0


SETTINGS = {
    # Elements are decided at σ of 0.1 to 3, so training looks there more often, and the sampler starts where
    # the vectors of a whole cell drown in the noise. γ = 0.4.
    "small": CrystaliteDngSettings(
        replace(CSP_SETTINGS["small"], log_sigma=(-0.8, 1.4), sigma_max=10.0, steps=30, churn=12.0),
        answer="expected",
        type_weight=5.0,
    ),
    "published": CrystaliteDngSettings(
        replace(
            CSP_SETTINGS["published"],
            size=replace(PUBLISHED, width=512, shared_bias=True),
            coordinate_weight=150.0,
            cell_weight=5.0,
            steps=150,
            churn=60.0,
            annealing=(10.0, 10.0),
        )
    ),
}


class CrystaliteDng(JointModel):
    """See the module."""

    name = "crystalite-dng"
    begins_as = "crystalite"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Crystalite.recipes["small"],
        "published": replace(Crystalite.recipes["published"], ema=0.9999),
    }
    vectors: Tensor

    def __init__(self, settings: CrystaliteDngSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.default_steps = settings.csp.steps
        self.frame = settings.csp.frame
        width = settings.csp.size.width
        self.csp = Crystalite(settings.csp)
        self.type_in = mlp(LATENT, width, width)
        last = self.type_in[-1]
        assert isinstance(last, nn.Linear)
        zeroed(last)
        self.type_head = TypeHead(width) if settings.answer == "expected" else nn.Linear(width, LATENT)
        self.marginals = Marginals()
        self.register_buffer("vectors", element_vectors().clone(), persistent=False)
        self.term_weights = {**self.csp.term_weights, "types": settings.type_weight}

    @classmethod
    def make(cls, csp: CrystaliteSettings | dict[str, Any], **settings: Any) -> CrystaliteDng:
        """From `settings()`."""
        csp = Crystalite.make(**csp).chosen if isinstance(csp, dict) else csp
        return cls(CrystaliteDngSettings(csp=csp, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def entries(self, n: int) -> dict[str, int]:
        return {**self.csp.entries(n), "types": n * (1 if self.chosen.answer == "expected" else LATENT)}

    def fit_statistics(self, crystals: Crystals) -> None:
        self.csp.fit_statistics(crystals)
        self.marginals.fit(crystals)

    def begin_as(self, other: TrainableModel) -> None:
        if not isinstance(other, Crystalite) or (other.chosen.size, other.chosen.answer) != (
            self.chosen.csp.size,
            self.chosen.csp.answer,
        ):
            raise InputError(
                f"'{self.name}' cannot begin as these weights of '{other.name}'",
                f"name weights of '{self.begins_as}' of the same size",
            )
        fitted = self.csp.cell_mean.clone(), self.csp.cell_scale.clone()
        self.csp.load_state_dict(other.state_dict())
        self.csp.cell_mean.copy_(fitted[0])  # of the crystals at hand
        self.csp.cell_scale.copy_(fitted[1])

    # Training

    def loss_sums(self, batch: Batch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        sigma, noisy, clean = self.csp.noised_batch(batch, u, rng)
        z = self.vectors[batch.numbers]
        noisy["z"] = z + sigma[:, None, None] * torch.randn(z.shape, generator=rng)
        found, log_chances = self.answer(noisy, sigma)
        if log_chances is None:
            types = (loss_weight(sigma)[:, None, None] * (found["z"] - z) ** 2).sum()
        else:
            types = -torch.gather(log_chances, -1, batch.numbers[..., None]).sum()
        return {**self.csp.errors(found, clean, sigma), "types": types}

    def composition_loss(self, numbers: Tensor, u: Tensor, rng: torch.Generator) -> Tensor | None:
        if not isinstance(self.type_head, TypeHead):
            return None
        there = (numbers > 0)[..., None]
        sigma = self.csp.noise_level(u)
        z = self.vectors[numbers]
        alone = self.log_chances(z + sigma[:, None, None] * torch.randn(z.shape, generator=rng), sigma)
        told = torch.log_softmax(alone + self.type_head.of_composition(alone.exp() * there), dim=-1)
        return -(torch.gather(told, -1, numbers[..., None]) * there).sum() / there.sum()

    def answer(self, state: State, sigma: Tensor) -> tuple[State, Tensor | None]:
        """D(x, y, z; σ), and ln of the chances of elements [b, n, 101] where it tells them. σ is [b]."""
        z = state["z"]
        skip, out, scale = (c[:, None, None] for c in preconditioning(sigma))
        alone = self.log_chances(z, sigma)
        chances = alone.exp()
        x, y, atoms = self.csp.denoise_with_atoms(
            chances, state["x"], state["y"], sigma, extra=self.type_in(scale * z)
        )
        if isinstance(self.type_head, TypeHead):
            log_chances = torch.log_softmax(alone + self.type_head(atoms, chances), dim=-1)
            with torch.autocast(z.device.type, enabled=False):
                return {"x": x, "y": y, "z": log_chances.exp() @ self.vectors}, log_chances
        return {"x": x, "y": y, "z": skip * z + out * self.type_head(atoms).to(z.dtype)}, None

    def log_chances(self, z: Tensor, sigma: Tensor) -> Tensor:
        """ln p(e | z_σ) of each atom by itself.  # [b, n, 16], [b] -> [b, n, 101]"""
        with torch.autocast(z.device.type, enabled=False):  # with little noise every digit counts
            # |z|² is the same for all elements.
            square = (self.vectors**2).sum(dim=-1) - 2 * z.to(self.vectors.dtype) @ self.vectors.T
        scores = self.marginals.log_elements - square / (2 * sigma[:, None, None] ** 2)
        return torch.log_softmax(scores, dim=-1)

    # Sampling

    def create(
        self, n: int, noise: Noise, *, steps: int | None = None, recorder: Trajectory | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        blank = torch.zeros(len(noise), n, dtype=torch.long, device=self.vectors.device)
        end = self.process(blank, steps=steps).run(noise, recorder)
        return self.nearest(end["z"]), (end["x"] + 0.5) % 1.0, self.csp.decode_cell(end["y"])

    def nearest(self, z: Tensor) -> Tensor:
        """The training element whose vector points most like z.  # [..., 16] -> [...]"""
        likeness = z @ self.vectors.T
        return likeness.masked_fill(self.marginals.elements == 0, -torch.inf).argmax(dim=-1)

    def process(self, numbers: Tensor, *, steps: int | None = None) -> JointHeun:
        return JointHeun(self, numbers, steps or self.default_steps)

    def informative(self, trajectory: Trajectory) -> list[int]:
        return self.process(trajectory.numbers, steps=len(trajectory)).informative(trajectory)


class JointHeun(Heun):
    """Heun steps of `crystalite`, for the vectors z of elements as well.

    Args:
        model: Its network and settings.
        numbers: Zeros.  # [b, n]
        steps: K; γ stays that of the model's own number of steps.
    """

    def __init__(self, model: CrystaliteDng, numbers: Tensor, steps: int) -> None:
        csp = model.chosen.csp
        super().__init__(
            model.csp.denoise,
            numbers,
            steps,
            churn=csp.churn * steps / csp.steps,
            churn_noise=csp.churn_noise,
            annealing=csp.annealing,
            sigma_max=csp.sigma_max,
        )
        self.model = model

    def start(self, noise: Noise) -> State:
        """Noisy data are spread a little more than noise, around the mean vector."""
        shares, vectors = self.model.marginals.elements, self.model.vectors
        mean = shares @ vectors
        spread = torch.sqrt(shares @ (vectors - mean) ** 2 + self.sigma_max**2)
        z = mean + spread * noise.normal(self.numbers.shape[1], LATENT)
        return self.churned({**self.noise(noise), "z": z}, 0).draw(noise)

    def clean(self, state: State, sigma: Tensor) -> State:
        return self.model.answer(state, sigma)[0]

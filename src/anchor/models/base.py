"""What the learned models share: a loss on a batch, a sampler, settings that a file can carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.models.data import TrainingSet
from anchor.models.noise import Noise
from anchor.models.transitions import Process, Trajectory, Transition
from anchor.models.types import Marginals


@dataclass(frozen=True)
class Recipe:
    """How a model was trained by its authors, or is trained here.

    Attributes:
        optimiser: adam, adamw or amsgrad (AdamW with the maximum of second moments).
        learning_rate: Peak.
        weight_decay: Of AdamW.
        batch_size: Crystals per step.
        clip: Largest norm of the gradient; 0 for none.
        ema: Decay of the averaged weights per step; young averages use (1 + step)/(10 + step) where smaller.
        warmup: Steps of linear growth of the learning rate.
        schedule: constant, or cosine down to 1 % over the planned number of steps.
        alike: Steps whose crystals are sorted by size together, so that each step sees few sizes (1: not).
    """

    optimiser: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 256
    clip: float = 0.5
    ema: float = 0.999
    warmup: int = 200
    schedule: str = "constant"
    alike: int = 1


class TrainableModel(nn.Module, ABC):
    """A trainable distribution of crystals given their atoms: a loss on a batch, settings a file can carry.

    Attributes:
        name: What people type.
        frame: Where training crystals have their origin: 'any' for networks that see differences only;
            'shifted', anew at random every time, or 'canonical' (see `frames`) for absolute coordinates.
        recipes: Training settings by size, 'small' and 'published'.
        term_weights: Weight of each term of the loss.
        chosen: A dataclass of all settings.
    """

    name: ClassVar[str]
    frame: Literal["any", "shifted", "canonical"] = "any"
    recipes: ClassVar[Mapping[str, Recipe]]
    term_weights: Mapping[str, float]
    chosen: Any

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Keywords that make this model again, as JSON knows them."""

    @abstractmethod
    def fit_statistics(self, crystals: Crystals) -> None:
        """Take from training crystals (standard cells) what the process needs to know of the data."""

    @abstractmethod
    def entries(self, n: int) -> dict[str, int]:
        """Numbers per crystal of n atoms over which each term of the loss is averaged."""

    @abstractmethod
    def loss_sums(self, batch: Any, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        """Each term of the loss, summed over its entries and the crystals of the batch.

        Args:
            batch: Of `training_set`: crystals of one size (`Batch`), unless the model says otherwise.
            u: A uniform number per crystal that decides its time; even over the batch.  # [b]
            rng: Source of all other noise.
        """

    def training_set(self, crystals: Crystals) -> TrainingSet:
        """Crystals as this model is trained on them; its statistics may not be fitted yet."""
        return TrainingSet(crystals, frame=self.frame)

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())


class SampledModel(TrainableModel):
    """A model whose crystals come from noise step by step.

    Attributes:
        default_steps: Sampler steps when none are asked for.
    """

    default_steps: int

    def process(self, numbers: Tensor, *, steps: int | None = None) -> Process:
        """The sampler as transitions.

        Args:
            numbers: Atomic numbers; zeros where the model chooses them.  # [b, n]
            steps: Sampler steps.

        Raises:
            AnchorError: Its steps have no density.
        """
        del numbers, steps
        raise AnchorError(
            f"the sampler of '{self.name}' is deterministic after its start: its steps have no density",
            "kldm with the sampler 'em' and crystalite have one",
        )

    def informative(self, trajectory: Trajectory) -> list[int]:
        """Steps that rewards are given to (`ddpo`): those whose density tells something of the weights."""
        return trajectory.scored

    def log_prob(self, trajectory: Trajectory, steps: Sequence[int] | None = None) -> Tensor:
        """ln of the density of recorded steps, with gradient to the weights.  # [steps, b]

        Args:
            trajectory: Of this model's sampler, under any weights.
            steps: Which, of `trajectory.scored`; by default all of them.
        """
        return trajectory.replay(self.process(trajectory.numbers, steps=len(trajectory)), steps)

    def transition_at(self, trajectory: Trajectory, steps: Sequence[int]) -> Transition:
        """Recorded steps under these weights in one call of the network: see `Trajectory.at`."""
        return trajectory.at(lambda numbers: self.process(numbers, steps=len(trajectory)), steps)


class StructureModel(SampledModel):
    """p(x given c): all coordinates and the cell of given atoms."""

    @abstractmethod
    def generate(
        self,
        numbers: Tensor,
        noise: Noise,
        *,
        steps: int | None = None,
        recorder: Trajectory | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Fractional coordinates [b, n, 3] and cells [b, 3, 3], Å; a cell may be NaN or flat.

        Args:
            numbers: Atomic numbers.  # [b, n]
            noise: One stream per crystal.
            steps: Sampler steps.
            recorder: Keeps the way, for `log_prob`; record without gradient.
        """


class JointModel(SampledModel):
    """p(c, x): the elements of a cell of n atoms with coordinates and cell.

    Attributes:
        marginals: How many atoms a cell has, and which elements there are.
        begins_as: Name of the model whose weights can start it.
    """

    marginals: Marginals
    begins_as: ClassVar[str]

    @abstractmethod
    def begin_as(self, other: TrainableModel) -> None:
        """Take over what a model of `begins_as` knows; raises InputError for any other."""

    def composition_loss(self, numbers: Tensor, u: Tensor, rng: torch.Generator) -> Tensor | None:
        """−ln p of elements that are noised, from nothing but those of the cell; None: it has no such part.

        Args:
            numbers: Atomic numbers, 0 for padding.  # [b, n]
            u: Decides the times.  # [b]
            rng: Source of all other noise.
        """
        del numbers, u, rng
        return None

    @abstractmethod
    def create(
        self, n: int, noise: Noise, *, steps: int | None = None, recorder: Trajectory | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Atomic numbers [b, n], fractional coordinates [b, n, 3], cells [b, 3, 3], Å (may be NaN or flat).

        Args:
            n: Atoms of each cell.
            noise: One stream per crystal.
            steps: Sampler steps.
            recorder: Keeps the way, for `log_prob`; record without gradient.
        """

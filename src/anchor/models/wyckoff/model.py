"""The wyckoff prior as a model that `anchor prior train` knows: data, loss, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.models.base import Recipe, TrainableModel
from anchor.models.data import TrainingSet
from anchor.models.wyckoff.cells import full_cell
from anchor.models.wyckoff.data import crystals_hash, encoded_set, scaled_cells, to_sequences, unscaled_cell
from anchor.models.wyckoff.encoding import Encoded
from anchor.models.wyckoff.network import SMALL, Sequences, WyckoffNet, WyckoffSize
from anchor.models.wyckoff.sampler import Draft, Writer


@dataclass(frozen=True)
class WyckoffSettings:
    """Everything that decides a wyckoff model beside its weights.

    Attributes:
        size: Of the network.
        beam: Crystals that are written side by side to find the most probable ones.
    """

    size: WyckoffSize = SMALL
    beam: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.beam, int) or self.beam < 1:
            raise InputError(f"beam={self.beam!r} is no number of crystals", "give a whole number above 0")


SETTINGS = {"small": WyckoffSettings()}


class Wyckoff(TrainableModel):
    """p(crystal | atoms) by symmetry: see `network`."""

    name = "wyckoff"
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Recipe(
            optimiser="adamw",
            learning_rate=2e-3,
            weight_decay=0.02,
            batch_size=128,
            clip=1.0,
            ema=0.998,
            warmup=100,
            alike=16,
        )
    }
    # With the right group and positions nearly every crystal matches: these choices must be learned.
    term_weights: Mapping[str, float] = {"group": 1.0, "positions": 1.0, "coordinates": 0.3, "cell": 0.5}
    cell_mean: Tensor
    cell_scale: Tensor

    def __init__(self, settings: WyckoffSettings = SETTINGS["small"]) -> None:
        super().__init__()
        self.chosen = settings
        self.network = WyckoffNet(settings.size)
        self.register_buffer("cell_mean", torch.zeros(6))
        self.register_buffer("cell_scale", torch.ones(6))

    @classmethod
    def make(cls, size: WyckoffSize | dict[str, Any], **settings: Any) -> Wyckoff:
        """From `settings()`."""
        size = WyckoffSize(**size) if isinstance(size, dict) else size
        return cls(WyckoffSettings(size=size, **settings))

    def settings(self) -> dict[str, Any]:
        return asdict(self.chosen)

    def fit_statistics(self, crystals: Crystals) -> None:
        cells = scaled_cells(encoded_set(crystals)[1])
        self.cell_mean.copy_(torch.from_numpy(cells.mean(axis=0)))
        self.cell_scale.copy_(torch.from_numpy(np.maximum(cells.std(axis=0), 1e-3)))

    def standardised(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scaled cell numbers with mean 0 and deviation 1 over the training crystals.  # [n, 6]"""
        return (cells - self.cell_mean.cpu().numpy()) / self.cell_scale.cpu().numpy()

    # Training

    def training_set(self, crystals: Crystals) -> SequenceSet:
        return SequenceSet(crystals, self)

    def entries(self, n: int) -> dict[str, int]:
        del n  # nats per crystal, whatever its size
        return dict.fromkeys(self.term_weights, 1)

    def loss_sums(self, batch: SequenceBatch, u: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
        """Negative log-likelihoods. There is no time (`u`); `rng` decides what is dropped."""
        del u
        devices = [rng.device] if rng.device.type == "cuda" else []
        seed = int(torch.randint(2**62, (), generator=rng))
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            return self.network.losses(batch.sequences)

    # Sampling

    def writer(self) -> Writer:
        """What writes crystals with these weights."""
        return Writer(self.network, device=self.cell_mean.device)

    def described(self, writer: Writer, drafts: Sequence[Draft]) -> list[Encoded]:
        """Finished drafts with their cells: the mean of the most probable Gaussian."""
        if not drafts:
            return []
        weights, means, _ = writer.cells(drafts)
        chosen = means[torch.arange(len(drafts)), weights.argmax(-1)]
        numbers = (chosen * self.cell_scale + self.cell_mean).double().cpu().numpy()
        return [
            Encoded(
                draft.group,
                draft.orbits,
                full_cell(draft.group, unscaled_cell(row.tolist(), draft.group, draft.atoms)),
            )
            for draft, row in zip(drafts, numbers, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Crystals as sequences, where other models have a `Batch` of crystals of one size."""

    sequences: Sequences

    n_atoms: ClassVar[int] = 0
    """Of no particular size."""

    def __len__(self) -> int:
        return len(self.sequences)

    def to(self, device: str | torch.device) -> SequenceBatch:
        return SequenceBatch(self.sequences.to(device))


class SequenceSet(TrainingSet):
    """Crystals as sequences, and the stream of batches made of them.

    Args:
        crystals: Any; those that cannot be described are left out.
        model: Standardises the cells; its statistics must be fitted before the first batch.
    """

    def __init__(self, crystals: Crystals, model: Wyckoff) -> None:
        members, encoded = encoded_set(crystals)
        self.crystals, self.hash = crystals[members], crystals_hash(crystals)
        self._lengths = np.array([len(one.orbits) for one in encoded])
        self._encoded, self._model = encoded, model
        self._cells = scaled_cells(encoded)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self._lengths

    def batches(
        self, step: int, batch_size: int, seed: int, *, translate: bool = False, alike: int = 1
    ) -> Iterator[tuple[NDArray[np.int64], SequenceBatch]]:
        """All crystals of a step as one batch; symmetry has settled their origins (`translate`)."""
        del translate
        members = self.members(step, batch_size, seed, alike=alike)
        yield np.arange(len(members)), self._batch(members)

    def all_batches(self) -> Iterator[tuple[NDArray[np.int64], SequenceBatch]]:
        """All crystals, in pieces."""
        for start in range(0, len(self), 256):
            members = np.arange(start, min(start + 256, len(self)))
            yield members, self._batch(members)

    def _batch(self, members: NDArray[np.int64]) -> SequenceBatch:
        cells = self._model.standardised(self._cells[members])
        return SequenceBatch(to_sequences([self._encoded[i] for i in members], cells))

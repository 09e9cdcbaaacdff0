"""What a learned prior is trained on: crystals in standard cells, in batches that any restart repeats.

One optimiser step sees `batch_size` crystals of an endlessly reshuffled set, grouped by atom count: every
group is a dense [b, n, …] block, so nothing is padded. Which crystals step 1,234 sees depends on the seed and
on 1,234 alone. Steps may be made of crystals of alike size (`alike`), which makes blocks larger and faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.arrays import content_hash
from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import spans_a_cell
from anchor.errors import InputError
from anchor.formats import load
from anchor.models.cells import from_lengths_and_angles, standard_cells
from anchor.models.frames import canonical_frames
from anchor.random import generator
from anchor.reference.reference import load_reference

MAX_ATOMS = 20
MAX_NUMBER = 100
"""Largest atomic number the networks have an embedding for."""


@dataclass(frozen=True, eq=False)
class Batch:
    """b crystals with n atoms each.

    Attributes:
        numbers: Atomic numbers.  # [b, n], int64
        frac: Fractional coordinates in [0, 1).  # [b, n, 3]
        lattice: Standard cells, Å.  # [b, 3, 3]
    """

    numbers: Tensor
    frac: Tensor
    lattice: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def n_atoms(self) -> int:
        """Atoms of each crystal."""
        return self.numbers.shape[1]

    def to(self, device: str | torch.device) -> Batch:
        return Batch(self.numbers.to(device), self.frac.to(device), self.lattice.to(device))


def to_batches(crystals: Crystals) -> list[tuple[NDArray[np.int64], Batch]]:
    """Crystals grouped by atom count, each group with the positions of its members."""
    offsets = crystals.offsets
    groups = []
    for n in np.unique(crystals.counts).tolist():
        members = np.flatnonzero(crystals.counts == n)
        atoms = offsets[members][:, None] + np.arange(n)
        batch = Batch(
            torch.from_numpy(crystals.numbers[atoms]),
            torch.from_numpy(crystals.frac[atoms]).float(),
            torch.from_numpy(crystals.lattice[members]).float(),
        )
        groups.append((members, batch))
    return groups


class TrainingSet:
    """Crystals in standard cells and the stream of batches made of them.

    Args:
        crystals: Any crystals of at most 20 atoms; they are brought to standard cells.
        hash: Identity of where they come from; by default of their content.
        frame: 'canonical' also brings them to one origin and one choice of axes (see `frames`).
    """

    def __init__(self, crystals: Crystals, hash: str | None = None, *, frame: str = "any") -> None:
        if not len(crystals):
            raise InputError("there are no crystals to train on")
        self.crystals = standard_cells(crystals)
        if frame == "canonical":
            self.crystals = canonical_frames(self.crystals)
        self.hash = hash or content_hash(
            {name: getattr(crystals, name) for name in ("counts", "numbers", "frac", "lattice")}
        )

    def __len__(self) -> int:
        return len(self.crystals)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """What makes crystals alike in cost.  # [n]"""
        return self.crystals.counts

    @property
    def elements(self) -> frozenset[int]:
        return frozenset(self.crystals.numbers.tolist())

    def members(self, step: int, batch_size: int, seed: int, *, alike: int = 1) -> NDArray[np.int64]:
        """The crystals of one step: its piece of an endless chain of shuffled epochs.  # [batch_size]

        Args:
            alike: The crystals of so many consecutive steps are sorted by atom count before they are dealt
                out, and the steps come in random order: few sizes per step, hence large blocks.
        """
        block, place = divmod(step, alike)
        chosen = self._chain(block * alike * batch_size, alike * batch_size, seed)
        if alike == 1:
            return chosen
        chosen = chosen[np.argsort(self.sizes[chosen], kind="stable")]
        turn = generator(seed, "training sizes", block).permutation(alike)[place]
        return chosen[turn * batch_size : (turn + 1) * batch_size]

    def _chain(self, start: int, length: int, seed: int) -> NDArray[np.int64]:
        """A piece of the endless chain of shuffled epochs.  # [length]"""
        chosen: list[NDArray[np.int64]] = []
        while length:
            epoch, position = divmod(start, len(self))
            order = generator(seed, "training order", epoch).permutation(len(self))
            chosen.append(order[position : position + length])
            start += len(chosen[-1])
            length -= len(chosen[-1])
        return np.concatenate(chosen)

    def batches(
        self, step: int, batch_size: int, seed: int, *, translate: bool = False, alike: int = 1
    ) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Groups of equal size of the step's crystals, atoms shuffled, and their places in the step's batch.

        Args:
            translate: Shift all atoms of each crystal by one random vector (for networks that see absolute
                coordinates).
            alike: See `members`.
        """
        rng = generator(seed, "training augmentation", step)
        crystals = self.crystals[self.members(step, batch_size, seed, alike=alike)]
        for places, batch in to_batches(crystals):
            yield places, augmented(batch, rng, translate=translate)

    def all_batches(self) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Every crystal once, as it is, and its place in the set."""
        yield from to_batches(self.crystals)


def augmented(batch: Batch, rng: np.random.Generator, *, translate: bool) -> Batch:
    """Each crystal with its atoms in random order and, if asked, shifted as a whole."""
    order = torch.from_numpy(rng.random(batch.numbers.shape).argsort(axis=1))
    frac = torch.gather(batch.frac, 1, order[:, :, None].expand(-1, -1, 3))
    if translate:
        frac = (frac + torch.from_numpy(rng.random((len(batch), 1, 3))).float()) % 1.0
    return Batch(torch.gather(batch.numbers, 1, order), frac, batch.lattice)


# Where crystals come from


def held_out_formulas() -> frozenset[str]:
    """Formulas of the validation and test splits of the bundled reference: never to be trained on."""
    reference = load_reference()
    return frozenset(reference.formulas[reference.split != "train"].tolist())


def reference_split(split: str) -> Crystals:
    """All crystals of one split of the bundled reference."""
    reference = load_reference()
    return reference.crystals[np.flatnonzero(reference.split == split)]


def training_crystals(sources: Sequence[str]) -> Crystals:
    """Crystals of all `sources`: the word 'reference' (train split), files, folders, or the .npz of MP-20.

    Of files, crystals with a held-out formula, more than 20 atoms, elements beyond atomic number 100 or a
    broken cell are left out.
    """
    parts = [
        reference_split("train") if source == "reference" else _trainable(_read(Path(source)))
        for source in sources
    ]
    return Crystals.concatenate(parts)


def _read(path: Path) -> Crystals:
    if path.suffix == ".npz":
        return read_padded_archive(path)
    return load(path, on_error="skip").crystals


def read_padded_archive(path: Path) -> Crystals:
    """Crystals of an .npz: `n_atoms`, `numbers`, `frac_coords` (padded), `cell_parameters` (Å, degrees)."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    with np.load(path, allow_pickle=False) as file:
        missing = {"n_atoms", "numbers", "frac_coords", "cell_parameters"} - set(file.files)
        if missing:
            raise InputError(f"{path} has no array {', '.join(sorted(missing))}")
        numbers = file["numbers"].astype(np.int64)
        parameters = torch.from_numpy(file["cell_parameters"].astype(np.float64))
        frac = file["frac_coords"].astype(np.float64)
    lattice = from_lengths_and_angles(parameters[:, :3], torch.deg2rad(parameters[:, 3:]))
    return Crystals.from_padded(numbers, frac, lattice.numpy())


def _trainable(crystals: Crystals) -> Crystals:
    fits = (crystals.counts <= MAX_ATOMS) & spans_a_cell(crystals.lattice)
    heaviest = np.zeros(len(crystals), dtype=np.int64)
    np.maximum.at(heaviest, crystals.owner, crystals.numbers)
    fits &= heaviest <= MAX_NUMBER
    crystals = crystals[np.flatnonzero(fits)]
    forbidden = held_out_formulas()
    allowed = [i for i, formula in enumerate(crystals.formulas) if formula not in forbidden]
    return crystals[np.array(allowed, dtype=np.int64)]

"""What models that choose elements share: marginals of the data, a head for elements, vectors of elements."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anchor.chemistry.features import BLOCKS, CAPACITY, N_GROUPS, N_PERIODS, valence_electrons
from anchor.crystals.crystals import Crystals
from anchor.models.data import MAX_ATOMS, MAX_NUMBER

KINDS = MAX_NUMBER + 1
"""Rows by atomic number; 0 is an atom whose element is not known."""
LATENT = 16
"""Numbers of an element's vector."""
HEAVIEST = 94
"""Largest atomic number that has a vector."""
_IMPOSSIBLE = -1e9  # ln of a chance that is none


class Marginals(nn.Module):
    """Shares of numbers of atoms per cell and of elements among atoms, of the training crystals.

    Attributes:
        sizes: By number of atoms.  # [21]
        elements: By atomic number.  # [101]
    """

    sizes: Tensor
    elements: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sizes", torch.full((MAX_ATOMS + 1,), 1 / MAX_ATOMS))
        self.register_buffer("elements", torch.full((KINDS,), 1 / HEAVIEST))
        self.sizes[0] = 0
        self.elements[0] = 0
        self.elements[HEAVIEST + 1 :] = 0

    def fit(self, crystals: Crystals) -> None:
        sizes = np.bincount(crystals.counts, minlength=MAX_ATOMS + 1)
        elements = np.bincount(crystals.numbers, minlength=KINDS)
        self.sizes.copy_(torch.from_numpy(sizes / sizes.sum()))
        self.elements.copy_(torch.from_numpy(elements / elements.sum()))

    def draw_sizes(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Numbers of atoms of n cells.  # [n]"""
        shares = self.sizes.double().cpu().numpy()
        drawn: NDArray[np.int64] = rng.choice(len(shares), size=n, p=shares / shares.sum())
        return drawn

    @property
    def log_elements(self) -> Tensor:
        """ln of the shares; hardly anything for elements that were never seen.  # [101]"""
        return torch.where(self.elements > 0, self.elements.clamp(min=1e-12).log(), _IMPOSSIBLE)


class TypeHead(nn.Module):
    """Scores of elements for every atom, from its features and from how much of what the cell holds.

    All scores start at 0, and without any say of the features: `compositions` teaches the rest first.
    """

    def __init__(self, width: int, hidden: int = 256) -> None:
        super().__init__()
        self.atom = nn.Linear(width, hidden)
        self.crystal = nn.Linear(width, hidden)
        self.counts = nn.Linear(KINDS, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, KINDS)
        for part in (self.out, self.atom, self.crystal):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)

    def of_composition(self, chances: Tensor) -> Tensor:
        """The scores without any features of atoms, the same for all.  # [b, n, 101] -> [b, 1, 101]"""
        return self(chances.new_zeros(len(chances), 1, self.atom.in_features), chances)

    def forward(self, atoms: Tensor, chances: Tensor) -> Tensor:
        """# [b, n, width], [b, n, 101] -> [b, n, 101]"""
        cell = self.crystal(atoms.mean(dim=1)) + self.counts(chances.sum(dim=1))
        h = nn.functional.silu(self.atom(atoms) + cell[:, None])
        return self.out(nn.functional.silu(self.mix(h))).float()


@cache
def element_vectors() -> Tensor:
    """A unit vector per element, by atomic number up to 94; 0 elsewhere.  # [101, 16]

    Period (7) and group (19, first for the f block) and block (4) as one-hot, s/2, p/6, d/10, f/14 of the
    valence; standardised over the elements, each of the four divided by the root of its width; the 16 main
    components, signs such that the largest entry is positive, scaled to length 1.
    """
    from pymatgen.core import Element

    elements = [Element.from_Z(z) for z in range(1, HEAVIEST + 1)]
    groups = [0 if element.block == "f" else element.group for element in elements]
    parts = [
        np.eye(N_PERIODS)[[_period(element.Z) for element in elements]],
        np.eye(N_GROUPS + 1)[groups],
        np.eye(len(BLOCKS))[[BLOCKS.index(element.block) for element in elements]],
        np.array([valence_electrons(element.electronic_structure) for element in elements]) / CAPACITY,
    ]
    scaled = np.concatenate([_standardised(part) / np.sqrt(part.shape[1]) for part in parts], axis=1)
    _, directions = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    main = directions[:, ::-1][:, :LATENT]
    main = main * np.sign(main[np.abs(main).argmax(axis=0), np.arange(LATENT)])
    found = scaled @ main
    vectors = torch.zeros(KINDS, LATENT)
    vectors[1 : HEAVIEST + 1] = torch.from_numpy(found / np.linalg.norm(found, axis=1, keepdims=True))
    return vectors


def _period(z: int) -> int:
    """From 0; pymatgen counts the f block as rows of their own."""
    return int(np.searchsorted([2, 10, 18, 36, 54, 86], z))


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = values.std(axis=0)
    scaled: NDArray[np.float64] = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return scaled

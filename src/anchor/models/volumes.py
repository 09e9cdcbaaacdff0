"""How large a cell should be: volumes learned from the reference's DFT crystals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import lsqr

from anchor.arrays import load_arrays
from anchor.crystals.crystals import Crystals
from anchor.paths import BUNDLED

FITTED_FILE = BUNDLED / "prior-templates.npz"
"""What `anchor prior index` fits to the reference: volumes, and prototypes and similarity for templates."""
N_ELEMENTS = 119
_RIDGE = 0.3  # pulls elements that few prototypes hold to the mean effect
_SMALLEST, _LARGEST = 4.0, 90.0  # Å³ per atom, bounds of the additive fit
_TYPICAL = 20.0  # Å³ per atom, for elements without any crystal


@dataclass(frozen=True, eq=False)
class Volumes:
    """Two models of a crystal's volume.

    Attributes:
        atomic: Additive volume of each element, Å³: any composition, error about 15 %.  # [119]
        substitution: Effect on ln(volume per atom) of an element's share of the atoms, between crystals of
            one prototype; only differences mean anything.  # [119]
    """

    atomic: NDArray[np.float64]
    substitution: NDArray[np.float64]

    def additive(self, numbers: NDArray[np.int64]) -> float:
        """Volume of these atoms as a sum over elements, Å³."""
        return float(self.atomic[numbers].sum())

    def ratio(self, new: NDArray[np.int64], old: NDArray[np.int64]) -> float:
        """Volume per atom of a crystal with atoms `new` over that of the same prototype with atoms `old`."""
        return float(np.exp(self.substitution[new].mean() - self.substitution[old].mean()))


@cache
def atomic_volumes() -> NDArray[np.float64]:
    """The additive volumes that ship, fitted to the bundled reference.  # [119]"""
    return load_arrays(FITTED_FILE)["atomic_volume"]


def fit_volumes(crystals: Crystals, prototype: NDArray[np.int64]) -> Volumes:
    """Fit both models to crystals whose prototypes are known.  # prototype [n]"""
    shares = _shares(crystals)
    per_atom = crystals.volume / crystals.counts
    # Relative errors count, and absurd values must not: a bounded least squares on volume / true volume.
    scaled = diags_array(1 / per_atom) @ shares
    bounded = lsq_linear(scaled.toarray(), np.ones(len(crystals)), bounds=(_SMALLEST, _LARGEST))
    present = np.asarray(shares.sum(axis=0)).ravel() > 0
    atomic = np.where(present, bounded.x, _TYPICAL)

    # Fixed effects: what all crystals of a prototype share is removed by subtracting its mean.
    _, group = np.unique(prototype, return_inverse=True)
    size = np.bincount(group)
    mean = csr_array((1 / size[group], (group, np.arange(len(group)))), shape=(len(size), len(group)))
    centred = (shares - (mean @ shares)[group]).tocsr()
    log_volume = np.log(per_atom)
    target = log_volume - (mean @ log_volume)[group]
    substitution = lsqr(centred, target, damp=_RIDGE)[0]
    return Volumes(atomic, substitution)


def _shares(crystals: Crystals) -> csr_array:
    """Share of each element in the atoms of each crystal.  # [n, 119], sparse"""
    owner = crystals.owner
    values = 1 / crystals.counts[owner]
    return coo_array((values, (owner, crystals.numbers)), shape=(len(crystals), N_ELEMENTS)).tocsr()

"""Within-group diversity (paper: app:reward/diversity)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from anchor.chemistry.composition import Compositions
from anchor.chemistry.families import FAMILIES, FAMILY


def struct_kernel(z: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """K_struct: RBF kernel on RDF embeddings. Two crystals without any pair inside r_max are alike (1).

    Args:
        z: Embeddings.  # [m, d]
        sigma: Bandwidth. The paper gives none; the reference calibrates one (median distance of a crystal to
            the nearest one of another formula).

    Returns:
        Similarities in [0, 1].  # [m, m]
    """
    return np.exp(-squareform(pdist(z, "sqeuclidean")) / (2.0 * sigma**2))


def comp_kernel(compositions: Compositions) -> NDArray[np.float64]:
    """K_comp: Jaccard similarity of the sets of chemical families present.  # [n, n]"""
    roles = np.zeros((len(compositions), len(FAMILIES)), dtype=bool)
    roles[compositions.owner, FAMILY[compositions.numbers]] = True
    shared = (roles[:, None, :] & roles[None, :, :]).sum(axis=2)
    union = (roles[:, None, :] | roles[None, :, :]).sum(axis=2)
    return shared / union


def diversity(kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """d(x_i) = clip(1 − mean over siblings j ≠ i of K(x_i, x_j), 0, 1) (eq:diversity).

    A lone member has no siblings to resemble: its diversity is 1.

    Args:
        kernel: Similarities.  # [m, m]

    Returns:
        Diversities.  # [m]
    """
    n = len(kernel)
    if n < 2:
        return np.ones(n)
    return np.clip(1.0 - (kernel.sum(axis=1) - np.diag(kernel)) / (n - 1), 0.0, 1.0)

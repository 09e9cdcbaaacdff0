"""The RDF embedding of the paper (appendix "Continuous Adaptive Novelty", paragraph "RDF embedding")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts, minimum_image_distances
from anchor.errors import InputError

R_MAX = 7.0  # Å, tab:novelty-hparams
N_BINS = 80  # tab:novelty-hparams


def rdf_embedding(
    crystals: Crystals, r_max: float = R_MAX, n_bins: int = N_BINS, *, contacts: Contacts | None = None
) -> NDArray[np.float64]:
    """z_b = h_b / Σ h_b', the normalised histogram of minimum-image distances 0 < d <= r_max.

    One distance per unordered pair of distinct sites: a site and its own images do not count, nor do second
    images of a pair. Bins are equal and closed on the right, (0, w], (w, 2w], …, up to r_max. A crystal
    without any such pair (one atom, or all pairs farther than r_max) has an all-zero row.

    The embedding of one crystal differs between a primitive cell and a supercell: reduce to the primitive
    cell first where that matters.

    Args:
        crystals: A batch of n crystals.
        r_max: Cutoff, Å.
        n_bins: Number of bins.
        contacts: Of these crystals, where they are known already.

    Returns:
        Embeddings.  # [n, n_bins]
    """
    return rdf_from_counts(rdf_counts(crystals, r_max, n_bins, contacts=contacts))


def rdf_counts(
    crystals: Crystals, r_max: float = R_MAX, n_bins: int = N_BINS, *, contacts: Contacts | None = None
) -> NDArray[np.int64]:
    """h_b, the number of pairs in each bin.  # [n, n_bins]"""
    if not (r_max > 0 and n_bins >= 1):
        raise InputError(f"{r_max=} and {n_bins=} must be positive")
    contacts = minimum_image_distances(crystals) if contacts is None else contacts.between_sites
    inside = (contacts.distance > 0) & (contacts.distance <= r_max)
    scaled = np.ceil(contacts.distance[inside] * (n_bins / r_max)).astype(np.int64) - 1
    column = np.clip(scaled, 0, n_bins - 1)  # the product may round past the last edge, or to 0
    flat = np.bincount(contacts.crystal[inside] * n_bins + column, minlength=len(crystals) * n_bins)
    return flat.reshape(len(crystals), n_bins)


def rdf_from_counts(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """z_b = h_b / Σ h_b'; an empty histogram stays all zero.  # [n, n_bins]"""
    return counts / np.maximum(counts.sum(axis=1, keepdims=True, dtype=np.float64), 1.0)

"""The fixed novelty index: RDF embeddings of known crystals by reduced formula, and their bandwidths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

K_NN = 10  # k_cfg of tab:novelty-hparams
FLOOR_PERCENTILE = 10.0


class RdfIndex:
    """Z_ref of the paper: embeddings of each reference formula, and their calibrated bandwidths.

    Args:
        embeddings: RDF embedding of each crystal.  # [n, d]
        formulas: Reduced formula of each crystal.  # [n]
        bandwidths: Median pairwise distance of each formula of `unique formulas`, sorted; computed when None.
        sigma_floor: Global least bandwidth; computed when None.
        struct_bandwidth: Bandwidth of K_struct; computed when None (quadratic in n).
    """

    def __init__(
        self,
        embeddings: NDArray[np.float64],
        formulas: Sequence[str],
        *,
        bandwidths: NDArray[np.float64] | None = None,
        sigma_floor: float | None = None,
        struct_bandwidth: float | None = None,
    ) -> None:
        self._embeddings = np.asarray(embeddings, dtype=np.float64)
        self._rows: dict[str, list[int]] = {}
        for row, formula in enumerate(formulas):
            self._rows.setdefault(formula, []).append(row)
        self.formulas = tuple(sorted(self._rows))
        if bandwidths is None:
            bandwidths = np.array([median_distance(self.embeddings(f)) for f in self.formulas])
        self._bandwidths = dict(zip(self.formulas, bandwidths.tolist(), strict=True))
        self.sigma_floor = self._calibrated_floor() if sigma_floor is None else sigma_floor
        self.struct_bandwidth = (
            self._calibrated_struct_bandwidth(formulas) if struct_bandwidth is None else struct_bandwidth
        )

    def __contains__(self, formula: str) -> bool:
        return formula in self._rows

    def __len__(self) -> int:
        return len(self._embeddings)

    def embeddings(self, formula: str) -> NDArray[np.float64]:
        """Embeddings of the crystals with this reduced formula, none for an unknown one.  # [m, d]"""
        return self._embeddings[self._rows.get(formula, [])]

    def bandwidth(self, formula: str) -> float:
        """σ_f, the median pairwise distance; 0 below two crystals. Before `sigma_floor` is applied."""
        return self._bandwidths.get(formula, 0.0)

    def bandwidths(self) -> NDArray[np.float64]:
        """σ_f of every formula, in the order of `formulas`.  # [n_formulas]"""
        return np.array([self._bandwidths[f] for f in self.formulas])

    def _calibrated_floor(self) -> float:
        groups = [self.embeddings(f) for f in self.formulas]
        # Empty histograms (one atom in the cell) all coincide and say nothing about polymorphs.
        distances = [leave_one_out_distances(z[z.any(axis=1)]) for z in groups if len(z) > 1]
        pooled = np.concatenate(distances) if distances else np.zeros(0)
        return float(np.percentile(pooled, FLOOR_PERCENTILE)) if len(pooled) else 0.0

    def _calibrated_struct_bandwidth(self, formulas: Sequence[str]) -> float:
        filled = self._embeddings.any(axis=1)
        names = np.unique(np.asarray(formulas), return_inverse=True)[1][filled]
        nearest = nearest_other_distances(self._embeddings[filled], names)
        return float(np.median(nearest[np.isfinite(nearest)])) if np.isfinite(nearest).any() else 0.0


def median_distance(embeddings: NDArray[np.float64]) -> float:
    """Median heuristic: median pairwise l2 distance; 0 below two embeddings."""
    return float(np.median(pdist(embeddings))) if len(embeddings) > 1 else 0.0


def leave_one_out_distances(embeddings: NDArray[np.float64], k: int = K_NN) -> NDArray[np.float64]:
    """Mean distance of each embedding to its min(k, m - 1) nearest others; none below two.  # [m] or [0]

    The mean over the neighbourhood, because the novelty score averages over the same neighbourhood.
    """
    if len(embeddings) < 2:
        return np.zeros(0)
    distances = np.sort(squareform(pdist(embeddings)), axis=1)[:, 1:]  # the first is the distance to itself
    return distances[:, :k].mean(axis=1)


def nearest_other_distances(
    embeddings: NDArray[np.float64], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distance of each embedding to the nearest one of another group, infinite if there is none.  # [n]"""
    squares = np.einsum("nd,nd->n", embeddings, embeddings)
    nearest = np.empty(len(embeddings))
    chunk = 500
    for start in range(0, len(embeddings), chunk):
        part = slice(start, start + chunk)
        squared = squares[part, None] + squares[None, :] - 2 * embeddings[part] @ embeddings.T
        squared[groups[part, None] == groups[None, :]] = np.inf
        nearest[part] = np.sqrt(np.maximum(squared.min(axis=1), 0.0))
    return nearest

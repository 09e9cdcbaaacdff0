"""Continuous adaptive novelty, CAN (paper: app:reward/novelty).

A structure is compared with structures of its own reduced formula only: those of the fixed reference and
those the search itself has found. The lower of the two scores counts; then the structure joins the history.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

FORMULAS_IN_MIND = 100_000
"""Formulas whose embeddings stay in memory where they can be recalled: about 100 MB with one of each. A
million candidates would take a gigabyte."""
Branch = Literal["bootstrap", "reference", "history", "both"]


class EmbeddingIndex(Protocol):
    """Known embeddings by reduced formula, as `anchor.reference.reference.RdfIndex` offers them."""

    @property
    def sigma_floor(self) -> float: ...
    def embeddings(self, formula: str) -> NDArray[np.float64]: ...
    def bandwidth(self, formula: str) -> float: ...


def knn_novelty(z: NDArray[np.float64], known: NDArray[np.float64], sigma: float, k_nn: int = 10) -> float:
    """ν(z; Z) of eq:knn-novelty: one minus the mean RBF similarity to the k nearest embeddings of Z.

    Args:
        z: Embedding of the candidate.  # [d]
        known: Embeddings of the same formula, at least one.  # [m, d]
        sigma: RBF bandwidth.
        k_nn: Neighbours; fewer when `known` is smaller.
    """
    squared = np.sort(((known - z) ** 2).sum(axis=1))[:k_nn]
    return float(np.clip(1.0 - np.exp(-squared / (2.0 * sigma**2)).mean(), 0.0, 1.0))


def median_bandwidth(known: NDArray[np.float64], floor: float) -> float:
    """Median pairwise distance of a formula's embeddings, at least σ_floor; the floor below two entries."""
    return max(float(np.median(pdist(known))), floor) if len(known) > 1 else floor


@dataclass
class History:
    """Embeddings of what the search has found, first in first out, at most `cap` per reduced formula.

    Attributes:
        cap: See above.
        recall: Reads the embeddings of a formula that is not in mind from where they are stored, oldest
            first; None: what was appended is all there is, and nothing is forgotten.
        in_mind: Formulas to keep in memory if others can be recalled.
    """

    cap: int = 20
    recall: Callable[[str], Sequence[NDArray[np.float64]]] | None = None
    in_mind: int = FORMULAS_IN_MIND
    _entries: OrderedDict[str, list[NDArray[np.float64]]] = field(default_factory=OrderedDict)

    def embeddings(self, formula: str) -> NDArray[np.float64]:
        """What is remembered of a formula, oldest first.  # [m, d], m = 0 for an unknown one"""
        entries = self._of(formula)
        return np.stack(entries) if entries else np.zeros((0, 0))

    def append(self, formula: str, z: NDArray[np.float64]) -> None:
        """Remember one structure; the oldest of its formula leaves when there are more than `cap`."""
        entries = self._of(formula)
        entries.append(np.array(z, dtype=np.float64))
        if len(entries) > self.cap:
            del entries[0]
        if self.recall is not None and len(self._entries) > self.in_mind:
            self._entries.popitem(last=False)  # the one that nobody asked for in the longest time

    def _of(self, formula: str) -> list[NDArray[np.float64]]:
        """The entries of a formula, which are now the last to be forgotten."""
        if formula not in self._entries:
            stored = () if self.recall is None else self.recall(formula)
            self._entries[formula] = list(stored[-self.cap :])
        self._entries.move_to_end(formula)
        return self._entries[formula]

    def __len__(self) -> int:
        """Embeddings in mind."""
        return sum(len(entries) for entries in self._entries.values())

    def __contains__(self, formula: str) -> bool:
        return bool(self._of(formula))

    def __iter__(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """All (formula, embedding) in mind, oldest first within a formula: appending them rebuilds it."""
        return ((formula, z) for formula, entries in self._entries.items() for z in entries)


@dataclass(frozen=True)
class NoveltyScore:
    """ν(x) and how it came about; NaN where an index had no structure of the formula."""

    value: float
    against_reference: float
    against_history: float
    branch: Branch


def adaptive_novelty(
    formula: str,
    z: NDArray[np.float64],
    reference: EmbeddingIndex,
    history: History | None,
    *,
    k_nn: int = 10,
    bootstrap: float = 0.75,
    sigma_floor: float | None = None,
) -> NoveltyScore:
    """ν(x) = min(ν(z; Z_ref), ν(z; Z_hist)) (eq:novelty), steps 1–4 of the scoring procedure.

    Step 5, appending to the history, is the caller's: `history.append(formula, z)` after scoring.

    Args:
        formula: Reduced formula of the structure.
        z: Its RDF embedding.  # [d]
        reference: The fixed index.
        history: The search's own finds; None scores against the reference alone (evaluation, ablation).
        k_nn: Neighbours.
        bootstrap: ν_0, for a formula found in neither index.
        sigma_floor: Least bandwidth; None takes the reference's calibration.
    """
    floor = reference.sigma_floor if sigma_floor is None else sigma_floor
    known = reference.embeddings(formula)
    found = history.embeddings(formula) if history is not None else np.zeros((0, 0))
    against_reference = against_history = float("nan")
    if len(known):
        against_reference = knn_novelty(z, known, max(reference.bandwidth(formula), floor), k_nn)
    if len(found):
        against_history = knn_novelty(z, found, median_bandwidth(found, floor), k_nn)
    branch: Branch
    if len(known) and len(found):
        branch, value = "both", min(against_reference, against_history)
    elif len(known):
        branch, value = "reference", against_reference
    elif len(found):
        branch, value = "history", against_history
    else:
        branch, value = "bootstrap", bootstrap
    return NoveltyScore(value, against_reference, against_history, branch)


def reference_novelty(
    formulas: Sequence[str], embeddings: NDArray[np.float64], reference: EmbeddingIndex, *, k_nn: int = 10
) -> list[NoveltyScore]:
    """Novelty against the reference alone, as evaluations have it (app:eval_protocol).

    Args:
        formulas: Reduced formulas.  # n
        embeddings: RDF embeddings.  # [n, d]
        reference: The fixed index.
        k_nn: Neighbours.
    """
    found = zip(formulas, embeddings, strict=True)
    return [adaptive_novelty(formula, z, reference, None, k_nn=k_nn) for formula, z in found]

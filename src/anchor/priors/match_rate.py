"""How good a prior is: match rate and RMSE against known crystals, as the field defines them.

Match: pymatgen's StructureMatcher(stol=0.5, angle_tol=10, ltol=0.3) accepts a generated crystal of the same
cell composition. RMSE: mean over matched crystals of the root-mean-square displacement, in units of
(V/N)^(1/3). With k samples a crystal is matched when any sample matches; the smallest displacement counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import shortest_distances
from anchor.errors import InputError
from anchor.executors import make_executor
from anchor.priors.base import Prior
from anchor.priors.units import Stoichiometry, anonymous, of_split
from anchor.random import generator
from anchor.reference.reference import load_reference

SHORTEST_VALID = 0.5
"""Å; the field calls a crystal valid when no two atoms are closer and its volume is at least 0.1 Å³."""
SMALLEST_VALID = 0.1
ATOM_CLASSES = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 10_000))
_CHUNK = 16  # compositions per call of the prior, so that progress shows

Progress = Callable[[Iterable[Any], int], Iterator[Any]]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Everything measured on n test crystals with k samples each.

    Attributes:
        n_atoms, n_elements: Of each test crystal.  # [n]
        unseen: Whether no training crystal of the reference has its stoichiometry.  # [n], bool
        displacement: Normalised root-mean-square displacement of each sample, NaN where it does not match.
            # [n, k]
        shortest: Shortest interatomic distance of each sample, Å.  # [n, k]
        volume_error: Volume of each sample over the true one, minus 1.  # [n, k]
        seconds: Wall time of sampling all n × k crystals.
        fallbacks: Samples that another prior made.
        missing: Samples that nobody made; they match nothing and are not valid.
    """

    n_atoms: NDArray[np.int64]
    n_elements: NDArray[np.int64]
    unseen: NDArray[np.bool_]
    displacement: NDArray[np.float64]
    shortest: NDArray[np.float64]
    volume_error: NDArray[np.float64]
    seconds: float
    fallbacks: int = 0
    missing: int = 0

    def summary(self) -> dict[str, Any]:
        """All numbers as one document: overall, by atoms, by elements, and for unseen stoichiometries."""
        n, k = self.displacement.shape
        everything = np.ones(n, dtype=bool)
        return {
            "n": n,
            "k": k,
            "fallbacks": self.fallbacks,
            "missing": self.missing,
            "crystals_per_second": n * k / self.seconds if self.seconds else None,
            **self._rates(everything),
            "by_atoms": {
                f"{low}-{high}" if high < 10_000 else f">{low - 1}": self._rates(chosen)
                for low, high in ATOM_CLASSES
                if (chosen := (self.n_atoms >= low) & (self.n_atoms <= high)).any()
            },
            "by_elements": {
                str(size): self._rates(self.n_elements == size)
                for size in np.unique(self.n_elements).tolist()
            },
            "unseen_stoichiometry": self._rates(self.unseen),
        }

    def _rates(self, chosen: NDArray[np.bool_]) -> dict[str, Any]:
        count = int(chosen.sum())
        if not count:
            return {"crystals": 0}
        displacement = self.displacement[chosen]
        first = ~np.isnan(displacement[:, 0])
        matched = ~np.isnan(displacement).all(axis=1)
        best = np.nanmin(displacement[matched], axis=1) if matched.any() else np.array([math.nan])
        rate = float(matched.mean())
        error = np.abs(self.volume_error[chosen])
        return {
            "crystals": count,
            "matched": int(matched.sum()),
            "match_rate": rate,
            "match_rate_standard_error": math.sqrt(rate * (1 - rate) / count),
            "match_rate_first_sample": float(first.mean()),
            "rmse": float(best.mean()) if matched.any() else None,
            "valid": float((self.shortest[chosen] >= SHORTEST_VALID).mean()),
            "shortest_distance_below_1_angstrom": float((self.shortest[chosen] < 1.0).mean()),
            "shortest_distance_median_angstrom": float(np.median(self.shortest[chosen])),
            "volume_error_median": float(np.nanmedian(error)) if np.isfinite(error).any() else None,
        }


def held_out(split: str, n: int | None = None, *, seed: int = 0) -> Crystals:
    """Crystals of one split of the bundled reference; n of them at random, in their order (None: all)."""
    reference = load_reference()
    return reference.crystals[_some(of_split(reference, split), n, seed)]


def some(crystals: Crystals, n: int | None, *, seed: int = 0) -> Crystals:
    """n of the crystals at random, in their order (None: all)."""
    return crystals[_some(np.arange(len(crystals)), n, seed)]


def _some(indices: NDArray[np.int64], n: int | None, seed: int) -> NDArray[np.int64]:
    if n is None or n >= len(indices):
        return indices
    if n < 1:
        raise InputError(f"{n} test crystals are none", "ask for at least one")
    return np.sort(generator(seed, "prior test").choice(indices, size=n, replace=False))


def measure(
    prior: Prior,
    truth: Crystals,
    k: int = 1,
    *,
    seed: int = 0,
    workers: int | None = 1,
    progress: Progress = lambda items, _total: iter(items),
) -> Measurement:
    """Ask the prior for k crystals of each true crystal's cell, and compare.

    Args:
        truth: Known crystals; the prior sees their atom counts only.
        k: Samples per crystal.
        workers: Processes that compare structures (the slow part); None: one for each core.
        progress: Wraps the loop over chunks: `progress(items, total)`.
    """
    if k < 1:
        raise InputError(f"{k=} samples per crystal are none", "ask for at least one")
    described = list(anonymous(truth))
    known = training_stoichiometries()
    chunks = [np.arange(i, min(i + _CHUNK, len(truth))) for i in range(0, len(truth), _CHUNK)]
    displacements: list[NDArray[np.float64]] = []
    shortest: list[NDArray[np.float64]] = []
    volume: list[NDArray[np.float64]] = []
    seconds, fallbacks, missing = 0.0, 0, 0
    with make_executor(workers=workers) as executor:
        for chunk in progress(chunks, len(chunks)):
            true = truth[chunk]
            cells = [cell_of(true[i]) for i in range(len(true))]
            start = time.perf_counter()
            answer = prior.realise(cells, k, seed=seed, stream=("prior test", int(chunk[0])))
            seconds += time.perf_counter() - start
            samples, at = answer.crystals, answer.request
            fallbacks += sum(name not in prior.makers for name in answer.made_by)
            missing += len(answer.missing)
            pairs = [(sample, true[i // k]) for sample, i in zip(samples, at.tolist(), strict=True)]
            nearest = np.where(samples.volume < SMALLEST_VALID, 0.0, shortest_distances(samples))
            for columns, values, otherwise in (
                (displacements, np.array(executor.results(_displacement_of, pairs)), np.nan),
                (shortest, nearest, 0.0),
                (volume, samples.volume / true.volume[at // k] - 1, np.nan),
            ):
                column = np.full(len(true) * k, otherwise)
                column[at] = values
                columns.append(column.reshape(-1, k))
    empty = np.zeros((0, k))
    return Measurement(
        truth.counts,
        np.array([len(elements) for elements, _, _ in described], dtype=np.int64),
        np.array([ratio not in known for _, ratio, _ in described], dtype=bool),
        np.concatenate([empty, *displacements]),
        np.concatenate([empty, *shortest]),
        np.concatenate([empty, *volume]),
        seconds,
        fallbacks,
        missing,
    )


def displacement(sample: Crystals, true: Crystals) -> float:
    """Normalised root-mean-square displacement of one crystal from another, NaN when they do not match."""
    found = _matcher().get_rms_dist(sample.to_structures()[0], true.to_structures()[0])
    return math.nan if found is None else float(found[0])


def _displacement_of(pair: tuple[Crystals, Crystals]) -> float:
    return displacement(*pair)


@cache
def _matcher() -> Any:
    from pymatgen.analysis.structure_matcher import StructureMatcher

    return StructureMatcher(stol=0.5, angle_tol=10, ltol=0.3)


def cell_of(crystal: Crystals) -> Composition:
    """The atoms of a crystal (a batch of one), as a prior is asked for them."""
    numbers, counts = np.unique(crystal.numbers, return_counts=True)
    return Composition(tuple(SYMBOLS[z] for z in numbers), tuple(counts.tolist()))


@cache
def training_stoichiometries() -> frozenset[Stoichiometry]:
    """Those of the reference's train split."""
    reference = load_reference()
    train = reference.crystals[of_split(reference, "train")]
    return frozenset(ratio for _, ratio, _ in anonymous(train))

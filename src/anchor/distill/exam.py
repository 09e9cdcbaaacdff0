"""How weights are judged: the same held-out compositions and seeds for all, so that differences are paired.

`test` asks for crystals of the reference's test split, `campaign` for the compositions that the corpus had to
leave out, with what the search found as truth; both count matches of one sample (`anchor prior test`).
Samples of the latter can also be relaxed and placed on the hull (`anchor evaluate`). An interval counts
compositions, not samples: the seeds of each are averaged first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.evaluate.bootstrap import paired_difference
from anchor.evaluate.protocol import Protocol
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import find_source
from anchor.outcomes.columns import ABOVE
from anchor.priors.learned import TrainedPrior, load
from anchor.priors.match_rate import measure
from anchor.reading import read_json
from anchor.weights import write_json

FLAGS = ("valid", "metastable", "stable", "msun", "sun")
"""Yes-or-no columns of an evaluation that are compared."""


@dataclass(frozen=True, eq=False)
class Exam:
    """What every set of weights is asked.

    Attributes:
        truths: Crystals to match, by name.
        seeds: Of sampling.
        compositions: File with the cells that are judged; None: none are.
        protocol: That judges them.
    """

    truths: Mapping[str, Crystals]
    seeds: Sequence[int]
    compositions: Path | None = None
    protocol: Protocol | None = None


Answers = dict[str, NDArray[np.float64]]
"""By the name of a number: its value of each composition and seed, NaN where there is none.  # [n, seeds]"""


def answers(weights: Path, folder: Path, exam: Exam) -> Answers:
    """Everything about a set of weights; what the folder holds already is not done again."""
    prior = load(weights=weights, fallback="none")  # a crystal that it cannot make is a miss
    found: Answers = {}
    for name, truth in exam.truths.items():
        columns = [_displacements(prior, truth, seed, folder / f"{name}-{seed}.json") for seed in exam.seeds]
        displacement = np.stack(columns, axis=1)
        found[f"match {name}"] = (~np.isnan(displacement)).astype(np.float64)
        found[f"rmse {name}"] = displacement
    if exam.compositions is not None and exam.protocol is not None:
        found |= _judged(prior, folder / "evaluation", exam)
    return found


def _displacements(prior: TrainedPrior, truth: Crystals, seed: int, path: Path) -> NDArray[np.float64]:
    """Displacement of one sample of each composition, NaN where it does not match.  # [n]"""
    if not path.is_file():
        asked = np.array([i for i, crystal in enumerate(truth) if prior.knows(crystal)], dtype=np.int64)
        values = np.full(len(truth), np.nan)  # what it does not know it does not match
        values[asked] = measure(prior, truth[asked], 1, seed=seed).displacement[:, 0]
        document = {
            "prior": prior.hash,
            "seed": seed,
            "displacement": [None if math.isnan(v) else v for v in values.tolist()],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, document)
    return np.array(read_json(path)["displacement"], dtype=np.float64)


def _judged(prior: TrainedPrior, folder: Path, exam: Exam) -> Answers:
    """Flags and energies of relaxed samples of the held-out compositions."""
    assert exam.compositions is not None
    assert exam.protocol is not None
    source = find_source([f"formulas:{exam.compositions}"])
    finished = evaluate(source, exam.protocol, folder, n=None, seeds=exam.seeds, prior=prior)
    rows = finished.rows()
    by_place = {(row["index"], row["seed"]): row for row in rows}
    n = len(rows) // len(exam.seeds)
    places = [[by_place[i, seed] for seed in exam.seeds] for i in range(n)]
    found = {name: np.array([[float(row[name] or False) for row in one] for one in places]) for name in FLAGS}
    energies = [[row[ABOVE] if row["valid"] else None for row in one] for one in places]
    return {**found, "e_hull": np.array(energies, dtype=np.float64)}


def summarise(found: Answers) -> dict[str, dict[str, Any]]:
    """Mean, spread over seeds and count of every number."""
    summary: dict[str, dict[str, Any]] = {}
    for name, values in found.items():
        by_seed = np.array([np.nanmean(v) if np.isfinite(v).any() else np.nan for v in values.T])
        summary[name] = {
            "mean": _plain(float(by_seed.mean())),
            "std": _plain(float(by_seed.std(ddof=1))) if len(by_seed) > 1 else None,
            "compositions": len(values),
            "seeds": values.shape[1],
            "count": int(np.isfinite(values).sum()),
            "sum": _plain(float(np.nansum(values))),
        }
    return summary


def differences(first: Answers, second: Answers) -> dict[str, dict[str, Any]]:
    """First − second over compositions that both have a value of, with 95 % intervals."""
    compared: dict[str, dict[str, Any]] = {}
    for name in first:
        one, other = (_over_seeds(answer[name]) for answer in (first, second))
        both = np.isfinite(one) & np.isfinite(other)
        if both.any():
            found = paired_difference(one[both].tolist(), other[both].tolist())
            compared[name] = json.loads(json.dumps(asdict(found)))
    return compared


def _over_seeds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the seeds that have a value, NaN without any.  # [n, seeds] -> [n]"""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None

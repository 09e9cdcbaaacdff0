"""Calibrated chances of a formula: that what a search makes of it lies near the hulls, or on them.

Plausibility orders compositions; these are probabilities, learned from relaxations. The labels are unknown
formulas from the best to the hopeless, among them many of well-studied systems, each realised by the template
prior and relaxed with the cell free under MatterSim-1M (`anchor evaluate`, see the labels' card). Two
logistic regressions on the evidence: P(within 0.1 eV/atom), and P(on the hulls | within 0.1 eV/atom).
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER
from anchor.errors import InputError, MissingDependencyError
from anchor.paths import BUNDLED
from anchor.reading import plain_file, read_json
from anchor.reference.listed import formula_hash
from anchor.reference.reference import Reference
from anchor.screening.evidence import Evidence
from anchor.screening.nearness import FARTHEST
from anchor.writing import draft, replace_file

SHIPPED = BUNDLED / "screening" / "chances.json"
LABELS = BUNDLED / "screening" / "labels.csv"
"""Relaxed formulas that the shipped chances were learned from."""
METASTABLE_BELOW, STABLE_BELOW = 0.1, 0.0
"""eV/atom above the hulls."""
PENALTY = 0.01
"""Of squared standardised coefficients, per example: best by little in cross-validation on the labels that
are not held out."""
HELD_OUT = 0.4
"""Share of the labels, by formula, that only the reliability table sees."""
MOLECULAR = tuple(NUMBER[s] for s in ("H", "P"))
"""They make molecules, chains and cages, so that a template with other elements in its place says little:
of the fit's 219 labels with phosphorus 62 were near the hulls where 90 were expected without this, of 82 with
hydrogen 13 and not 21. CH4 and PH4 as cations (FeH4CBr3) are the worst of it."""
COLUMNS = ("formula", "above_hull_ev_per_atom", "made_by", "seed", "source")


@dataclass(frozen=True, eq=False)
class Labels:
    """Formulas and what became of them.

    Attributes:
        formulas: Reduced.
        above_hull: Energy above the hulls, the larger distance, eV/atom; NaN where nothing valid came.  # [n]
        made_by: What made the crystal.
        seed: Of the prior.  # [n]
        source: "evaluation" or "filling".
    """

    formulas: list[str]
    above_hull: NDArray[np.float64]
    made_by: list[str]
    seed: NDArray[np.int64]
    source: list[str]

    def __len__(self) -> int:
        return len(self.formulas)

    def __getitem__(self, rows: NDArray) -> Labels:
        """Some of them, by number or by yes and no."""
        at = np.arange(len(self))[rows]
        texts = ([own[i] for i in at] for own in (self.formulas, self.made_by, self.source))
        formulas, made_by, source = texts
        return Labels(formulas, self.above_hull[at], made_by, self.seed[at], source)

    @classmethod
    def concatenate(cls, parts: Sequence[Labels]) -> Labels:
        """All of them; of a formula that several have, the first counts."""
        whole = cls(
            [f for part in parts for f in part.formulas],
            np.concatenate([part.above_hull for part in parts]),
            [m for part in parts for m in part.made_by],
            np.concatenate([part.seed for part in parts]),
            [s for part in parts for s in part.source],
        )
        first = np.unique(whole.formulas, return_index=True)[1]
        return whole[np.sort(first)]

    @cached_property
    def compositions(self) -> Compositions:
        """One formula unit of each."""
        return Compositions.from_list(self.formulas)

    @property
    def metastable(self) -> NDArray[np.bool_]:
        """Within METASTABLE_BELOW; what failed is not.  # [n]"""
        return self.above_hull <= METASTABLE_BELOW

    @property
    def stable(self) -> NDArray[np.bool_]:
        """On the hulls.  # [n]"""
        return self.above_hull <= STABLE_BELOW

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Those that no fit sees, by a hash of the formula.  # [n]"""
        return np.array([formula_hash(f"chances {f}") / 2**64 < HELD_OUT for f in self.formulas], dtype=bool)

    @property
    def hash(self) -> str:
        """SHA-256 of formulas and energies to 0.1 meV/atom."""
        rows = [f"{f} {e:.4f}" for f, e in zip(self.formulas, self.above_hull.tolist(), strict=True)]
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        """How many there are, failed, are within 0.1 eV/atom, and on the hulls."""
        return {
            "labels": len(self),
            "failed": int(np.isnan(self.above_hull).sum()),
            "metastable": int(self.metastable.sum()),
            "stable": int(self.stable.sum()),
        }

    def save(self, path: Path) -> None:
        """As CSV; an empty energy is a failure."""
        with draft(path) as made, made.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(COLUMNS)
            for i in range(len(self)):
                energy = f"{self.above_hull[i]:.4f}" if np.isfinite(self.above_hull[i]) else ""
                out.writerow([self.formulas[i], energy, self.made_by[i], int(self.seed[i]), self.source[i]])


def load_labels(path: Path = LABELS) -> Labels:
    """Labels of a file; by default those that ship.

    Raises:
        InputError: The file has other columns, or is damaged.
    """
    hint = "make it: anchor policy labels --out FILE"
    if not path.exists():
        raise MissingDependencyError(f"there is no file '{path}'", hint)
    try:
        with plain_file(path).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if missing := set(COLUMNS) - set(reader.fieldnames or ()):
                raise InputError(f"'{path}' has no column {', '.join(sorted(missing))}", hint)
            rows = list(reader)
        return Labels(
            [row["formula"] for row in rows],
            np.array([float(row["above_hull_ev_per_atom"] or "nan") for row in rows]),
            [row["made_by"] for row in rows],
            np.array([int(row["seed"]) for row in rows], dtype=np.int64),
            [row["source"] for row in rows],
        )
    except (ValueError, TypeError, OverflowError, csv.Error) as error:  # no text, or words for numbers
        raise InputError(f"'{path}' is damaged: {error}", hint) from None


def features(
    compositions: Compositions,
    evidence: Evidence,
    find: NDArray[np.float64],
    systems: Mapping[str, NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Columns of both regressions.  # [n, N_FEATURES]

    Args:
        evidence: With templates of any number of formula units.
        find: Plausibility of a compound.  # [n]
        systems: Known compounds around each composition, of `KnownSystems.counts`.
    """
    above = np.clip(evidence.above_hull, -0.3, 0.6)
    near = np.clip(evidence.nearest, FARTHEST, 0)
    k = compositions.k
    return np.stack(
        [
            np.ones(len(above)),
            logit(np.clip(find, 1e-6, 1 - 1e-6)),
            np.minimum(above, 0),
            np.maximum(above, 0),
            np.maximum(above - 0.15, 0),
            np.minimum(evidence.gap, 0.5),
            np.minimum(evidence.spread, 0.5),
            near,
            np.maximum(near + 4, 0),
            np.log1p(evidence.templates),
            evidence.everyday,
            k == 2,
            k == 4,
            np.log1p(systems["own"]),
            np.log1p(systems["mp"]),
            molecular(compositions),
        ],
        axis=1,
        dtype=np.float64,
    )


def molecular(compositions: Compositions) -> NDArray[np.bool_]:
    """Whether there is hydrogen or phosphorus.  # [n]"""
    found = np.zeros(len(compositions), dtype=bool)
    found[compositions.owner[np.isin(compositions.numbers, MOLECULAR)]] = True
    return found


@dataclass(frozen=True)
class Chances:
    """The fitted regressions.

    Attributes:
        metastable: Coefficients of `features`: log-odds of METASTABLE_BELOW.
        stable: The same of STABLE_BELOW among these.
        card: Where they come from and how far they can be trusted.
    """

    metastable: tuple[float, ...]
    stable: tuple[float, ...]
    card: Mapping[str, Any]

    def probabilities(self, columns: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P(within 0.1 eV/atom of both hulls) and P(on both).  # [n, p] -> [n], [n]"""
        near = expit(columns @ np.array(self.metastable))
        return near, near * expit(columns @ np.array(self.stable))

    def save(self, path: Path) -> None:
        replace_file(path, json.dumps(asdict(self), indent=1) + "\n")


N_FEATURES = 16
UNKNOWN = Chances((np.nan,) * N_FEATURES, (np.nan,) * N_FEATURES, {})
"""Before anything is learned."""


@cache
def load_chances(path: Path = SHIPPED) -> Chances:
    """The chances of a file; by default those that ship."""
    if not path.is_file():
        raise MissingDependencyError(
            f"there is no file '{path}'", "make it: anchor policy chances --out FILE"
        )
    values = read_json(path, hint="make it: anchor policy chances --out FILE")
    return Chances(tuple(values["metastable"]), tuple(values["stable"]), values["card"])


def askable(compositions: Compositions, reference: Reference) -> NDArray[np.bool_]:
    """Whether a search would ask for it: charge-neutral, and in no list.  # [n]"""
    known = np.array([bool(reference.known(f)) for f in compositions.formulas], dtype=bool)
    return is_neutral(compositions) & ~known


def fit_chances(columns: NDArray[np.float64], labels: Labels) -> Chances:
    """Learn from the labels that are not held out.  # columns [n, p]"""
    seen = ~labels.held_out
    near = labels.metastable
    first = ridge_logistic(columns[seen], near[seen])
    second = ridge_logistic(columns[seen & near], labels.stable[seen & near])
    return Chances(_rounded(first), _rounded(second), {})


def ridge_logistic(columns: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Coefficients of a logistic regression; all but the constant, the first, are penalised.  # [p]"""
    mean, scale = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    mean[0], scale[0] = 0.0, 1.0
    x = (columns - mean) / scale
    sign = np.where(positive, 1.0, -1.0)

    def loss(c: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (x @ c)
        shrunk = np.concatenate([[0.0], c[1:]])
        value = np.logaddexp(0, -margin).mean() + PENALTY * (shrunk @ shrunk)
        return float(value), -(expit(-margin) * sign) @ x / len(x) + 2 * PENALTY * shrunk

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x / scale
    found[0] -= mean @ found
    return found


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(v), 5) for v in values)

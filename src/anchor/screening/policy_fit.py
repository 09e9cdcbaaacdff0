"""A policy fitted to a ranking: from a file of formulas with chances to one that a search can start from."""

from __future__ import annotations

import csv
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Composition, Compositions
from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.constraints import CARDINALITIES, Limits
from anchor.policy.draw import draw_compositions
from anchor.policy.fitting import FitSettings, Target, fit_policy
from anchor.policy.network import CompositionPolicy
from anchor.priors.request import Request
from anchor.priors.units import choose_units
from anchor.reading import plain_file
from anchor.screening.estimate import FreeEstimate

FORMULA, CHANCES = "formula", ("chance_metastable", "chance")
"""Columns of a ranking, the first as `anchor screen` writes it; others may stand beside them."""


def read_ranking(path: Path, *, most: int | None = None) -> tuple[Compositions, NDArray[np.float64]]:
    """Formulas of a CSV file and their chances, the best first, at most `most` of them.

    Raises:
        InputError: No file, no such columns, or a row that is no formula with a number; the row is named.
    """
    if not path.exists():
        raise InputError(f"there is no ranking '{path}'", "make one: anchor screen --out FILE.csv")
    try:
        with plain_file(path).open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is not a CSV file: {error}", "anchor screen writes one") from None
    column = next((name for name in CHANCES if rows and name in rows[0]), None)
    if column is None or FORMULA not in rows[0]:
        raise InputError(
            f"'{path}' has no columns '{FORMULA}' and '{CHANCES[0]}'",
            "the first line names the columns; anchor screen writes such a file",
        )
    try:
        chances = np.array([float(row[column]) for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"'{path}': a chance is not a number: {error}") from None
    best = np.argsort(-chances, kind="stable")[:most]
    return Compositions.from_list([rows[i][FORMULA] for i in best.tolist()]), chances[best]


def asked_cells(formulas: Compositions, query: str, max_atoms: int) -> Compositions:
    """Actions that stand for formulas: one formula unit, or the usual number of them.

    A prior that is asked for the very cell (`prior.query: cell`) needs as many units as such crystals have;
    otherwise it chooses them itself, and every other action of a formula would only repeat it.
    """
    if query != "cell":
        return formulas
    cells = []
    for formula in formulas:
        units = choose_units(Request(formula, None, 0, 0, ("fit",)), max(max_atoms, formula.n_atoms))
        cells.append(Composition(formula.elements, tuple(units * n for n in formula.counts)))
    return Compositions.from_list(cells)


def fit_to_ranking(
    ranking: tuple[Compositions, NDArray[np.float64]],
    config: Config,
    limits: Limits,
    settings: FitSettings,
    *,
    policy: CompositionPolicy | None = None,
    on_point: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[CompositionPolicy, dict[str, Any]]:
    """A policy fitted to a ranking, and what belongs on its card.

    Args:
        policy: Where to start; it is changed. None: an untrained one of the config's sizes.
    """
    formulas, chances = ranking
    cells = asked_cells(formulas, config.prior.query, limits.max_atoms)
    target = Target.from_ranking(cells, chances, settings)
    n_objectives = len(config.reward.alpha)
    if policy is None:
        policy = CompositionPolicy(config.policy, n_objectives=n_objectives, seed=settings.seed)
    began = time.process_time()
    curve = fit_policy(policy, target, limits, settings, alpha=config.reward.alpha, on_point=on_point)
    q = target.q
    return policy, {
        "what": "composition policy fitted by likelihood to a ranking of formulas",
        "fit": asdict(settings),
        "ranking": {
            "formulas": len(formulas),
            "best_chance": round(float(chances.max()), 4),
            "mean_chance_of_best_1000": round(float(np.sort(chances)[::-1][:1000].mean()), 4),
            "mean_chance_under_q": round(float(q @ chances), 4),
            "temperature": float(f"{target.temperature:.4g}"),
            "effective": round(float(1 / (q**2).sum())),
            "entropy_nats": round(float(-(q * np.log(np.maximum(q, 1e-300))).sum()), 3),
        },
        "curve": curve,
        "cpu_seconds": round(time.process_time() - began, 1),
        "threads": torch.get_num_threads(),
    }


def describe_draws(
    policy: CompositionPolicy,
    limits: Limits,
    weights: Sequence[float],
    estimate: FreeEstimate,
    *,
    n: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """What a start has to be: n draws at one w without sub-group mask, judged by the free estimate.

    A composition that is not charge-neutral has no chance.
    """
    drawn, _ = draw_compositions(policy, n, limits, weights, seed=seed)
    neutral, found = is_neutral(drawn), estimate(drawn)
    elements = Counter(e for composition in drawn for e in composition.elements)
    return {
        "n": n,
        "unique": len(set(drawn.formulas)),
        "neutral": int(neutral.sum()),
        "known": int(found.known.sum()),
        "k": {k: int((drawn.k == k).sum()) for k in CARDINALITIES},
        "mean_chance": round(float(np.where(neutral, found.metastable, 0.0).mean()), 4),
        "median_estimated_above_hull_ev_per_atom": round(float(np.median(found.above_hull)), 4),
        "mean_atoms": round(float(drawn.n_atoms.mean()), 2),
        "most_frequent_elements": dict(elements.most_common(8)),
    }


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()

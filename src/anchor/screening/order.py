"""The order in which a screened search proposes: ranked, diverse, and at hand when it was made before.

    order = screened_order(limits, 960)
    order.compositions.formulas[:3]

The order of all searchable elements ships; any other is made in seconds to a minute and kept in the user's
cache. A longer order begins with every shorter one. `python -m anchor.screening.order` makes what ships.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from anchor.arrays import load_arrays, save_arrays
from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.config import Config
from anchor.errors import AnchorError, Notice
from anchor.executors import Executor
from anchor.hull.references import load_hull
from anchor.paths import BUNDLED, cache_dir, sha256
from anchor.policy.constraints import Limits
from anchor.reading import read_json
from anchor.reference.reference import load_reference
from anchor.screening import chances, diverse, plausibility, surrogate
from anchor.screening.diverse import diverse_order
from anchor.screening.estimate import FreeEstimate, load_estimate
from anchor.screening.evidence import hull_energies
from anchor.screening.ranking import Ranking, rank
from anchor.writing import replace_file

SHIPPED = BUNDLED / "screening" / "ranking.npz"
"""The best formulas of all searchable elements of the default potential, with a card beside it."""
SHORTEST = 1024
"""Places of the shortest order that is made; longer ones double it."""
SMALL = 20_000
"""Formulas within limits up to which all of them are ranked: it takes seconds."""
PLACES = 65_536
"""Of the order that ships."""
WIDER = 2
"""Formulas ranked for each place: some wait for more of other families."""
VERSION = 1
"""Goes up whenever rankings may change though files and limits do not."""


def screened_order(
    limits: Limits,
    n: int,
    *,
    include_known: bool = False,
    executor: Executor | None = None,
    on_family: Callable[[int, int], object] | None = None,
) -> Ranking:
    """At least the first n places within limits, or all there are; from a file if it is there.

    Args:
        include_known: Keep formulas that a list has.
        executor: Who estimates formulas; None: this process.
        on_family: Told how far a new ranking is.
    """
    identity = order_identity(limits, include_known=include_known)
    for path in (SHIPPED, _cached(identity)):
        found = _kept(path, identity)
        if found is not None and (len(found) >= n or found.exhausted):
            return found
    places = SHORTEST
    while places < n:
        places *= 2
    began = time.process_time()
    made = make_order(
        load_estimate(), limits, places, include_known=include_known, executor=executor, on_family=on_family
    )
    seconds = time.process_time() - began
    save_order(_cached(identity), made, {"identity": identity, "cpu_seconds": round(seconds, 1)})
    return made


def places_that_ship(limits: Limits) -> int:
    """Places of the order that ships, if it is that of these limits; else 0."""
    found = load_order(SHIPPED, order_identity(limits))
    return 0 if found is None else len(found)


def make_order(
    estimate: FreeEstimate,
    limits: Limits,
    places: int,
    *,
    include_known: bool = False,
    executor: Executor | None = None,
    on_family: Callable[[int, int], object] | None = None,
) -> Ranking:
    """At least so many places, or all there are, by ranking as many formulas as the rule asks for."""
    n = WIDER * places
    while True:
        ranking = rank(
            estimate, limits, n, include_known=include_known, executor=executor, on_family=on_family
        )
        if not ranking.exhausted and n <= sum(ranking.listed.values()) <= SMALL:
            n = SMALL + 1
            continue
        order = diverse_order(
            ranking.compositions,
            len(ranking) if ranking.exhausted else places,
            required=np.flatnonzero(limits.required.cpu().numpy()),
            allowed=limits.n_allowed,
            exhausted=len(ranking) < n,
        )
        if len(order) >= min(places, len(ranking)):
            return ranking[order]
        n *= 2


def order_identity(limits: Limits, *, include_known: bool = False) -> str:
    """SHA-256 of all that decides an order: limits, estimate, lists of known formulas, rules."""
    files = (surrogate.SHIPPED, plausibility.SHIPPED, chances.SHIPPED)
    facts = {
        "version": VERSION,
        "elements": [VOCABULARY[i] for i in np.flatnonzero(limits.allowed.numpy())],
        "required": np.flatnonzero(limits.required.numpy()).tolist(),
        "lower": limits.lower.numpy()[limits.allowed.numpy()].tolist(),
        "upper": limits.upper.numpy()[limits.allowed.numpy()].tolist(),
        "k": limits.k,
        "atoms": [limits.min_atoms, limits.max_atoms],
        "known": include_known,
        "files": [sha256(path) for path in files],
        "reference": load_reference().card["files"],
        "rule": [diverse.FAMILY_SHARE, diverse.ELEMENT_SHARE, diverse.FEWEST],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


# Files


def _cached(identity: str) -> Path:
    return cache_dir() / "screening" / f"{identity[:32]}.npz"


def _kept(path: Path, identity: str) -> Ranking | None:
    """The order of a file; a damaged one of the cache is made again, whatever happened to it."""
    try:
        return load_order(path, identity)
    except AnchorError as error:
        if path == SHIPPED:
            raise
        warnings.warn(f"made again, because {error.message}", Notice, stacklevel=2)
        return None


def save_order(path: Path, order: Ranking, card: dict[str, Any]) -> None:
    """Write an order and its card (.json beside it): chances in 1e-4, energies in meV/atom."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers, counts = order.compositions.padded(MAX_ELEMENTS)
    hulls = {} if order.hull_energy is None else {"hull_energy": order.hull_energy.astype(np.float32)}
    save_arrays(
        path,
        {
            **hulls,
            "numbers": numbers.astype(np.uint8),
            "counts": counts.astype(np.uint8),
            "metastable": np.rint(order.metastable * 1e4).astype(np.uint16),
            "stable": np.rint(order.stable * 1e4).astype(np.uint16),
            "above_hull": np.rint(order.above_hull * 1e3).clip(-32768, 32767).astype(np.int16),
            "spread": np.rint(order.spread * 1e3).clip(0, 65535).astype(np.uint16),
        },
    )
    facts = {
        "places": len(order),
        "listed": order.listed,
        "estimated": order.estimated,
        "known": order.known,
        "complete": order.complete,
        "exhausted": order.exhausted,
    }
    replace_file(path.with_suffix(".json"), json.dumps({**card, **facts}, indent=1) + "\n")


def load_order(path: Path, identity: str) -> Ranking | None:
    """The order of a file if it has this identity."""
    card = path.with_suffix(".json")
    if not card.is_file() or not path.is_file():
        return None
    return _read(path, card.stat().st_mtime_ns, identity)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, identity: str) -> Ranking | None:
    card = read_json(path.with_suffix(".json"), hint="delete it: it is made again")
    if card.get("identity") != identity:
        return None
    arrays = load_arrays(path)
    hulls = arrays.get("hull_energy")
    try:
        return Ranking(
            Compositions.from_padded(arrays["numbers"].astype(np.int64), arrays["counts"].astype(np.int64)),
            arrays["metastable"] / 1e4,
            arrays["stable"] / 1e4,
            arrays["above_hull"] / 1e3,
            arrays["spread"] / 1e3,
            hull_energy=None if hulls is None else hulls.astype(np.float64),
            listed={int(k): n for k, n in card["listed"].items()},
            estimated=card["estimated"],
            known=card["known"],
            complete=card["complete"],
            exhausted=card["exhausted"],
        )
    except (KeyError, ValueError, AttributeError) as error:
        raise AnchorError(
            f"{path} or its card is damaged: {error!r}", "delete it: it is made again"
        ) from None


# The order that ships


def default_limits() -> Limits:
    """All elements that can be searched with the default potential."""
    config = Config()
    searchable = load_hull(config.relax.potential).searchable_elements
    return Limits.from_config(config.action_space, searchable=searchable)


if __name__ == "__main__":
    began, everything = time.process_time(), default_limits()
    estimate = load_estimate()
    made = make_order(estimate, everything, PLACES, on_family=lambda *done: print(*done, flush=True))[:PLACES]
    made = replace(made, hull_energy=hull_energies(made.compositions, estimate.hulls))
    facts = {
        "what": "unknown charge-neutral formulas in the order in which a screened search proposes them",
        "command": "python -m anchor.screening.order",
        "identity": order_identity(everything),
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    save_order(SHIPPED, made, facts)

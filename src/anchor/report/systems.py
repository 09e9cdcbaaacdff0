"""Hull diagrams: the known phases on the hulls around what a campaign found, and where it lies among them.

Flat diagrams exist of two elements (energy over composition) and of three (a triangle, from above); of more,
the phases that a crystal would decompose into are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from anchor.chemistry.elements import NUMBER
from anchor.config import Config
from anchor.errors import AnchorError
from anchor.hull.databases import LABELS
from anchor.hull.filling import SOURCE as FILLED
from anchor.hull.hull import SAME_FRACTIONS, Hull
from anchor.hull.references import PotentialHull, load_hull
from anchor.search.ledger import Ledger

DRAWN = (2, 3)
"""Numbers of elements that a diagram can have."""
DOWN = -1e-9
"""A facet whose normal points down more than this belongs to the lower hull."""
DECIMALS = 4


def add_hulls(entries: Sequence[dict[str, Any]], ledger: Ledger) -> dict[str, Any]:
    """Give entries their place on the hulls, and return the diagrams of their chemical systems.

    Entries get `on_scale`, formation energies on the scale of each database, and `decomposition` where no
    verdict has left one, both in eV/atom and by database.

    Returns:
        "systems": {"K-Se-Y": {"oqmd": {"phases": [[fractions, formula, energy, filled]], "lines": [[i, j]]}}}
        "labels" of the databases, and a "note" where something must be known about them.
    """
    hull, note = _campaign_hull(ledger)
    if hull is None:
        return {"systems": {}, "labels": LABELS, "note": note}
    systems: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for entry in entries:
        _place(entry, hull)
        if len(entry["elements"]) in DRAWN and "on_scale" in entry:
            systems.setdefault(tuple(entry["elements"]), []).append(entry)
    diagrams = {}
    for elements, members in systems.items():
        numbers = [NUMBER[symbol] for symbol in elements]
        targets = np.array([_fractions(entry, numbers) for entry in members])
        diagrams["-".join(elements)] = {
            name: _diagram(hull.hulls[name], tuple(numbers), targets) for name in hull.databases
        }
    return {"systems": diagrams, "labels": LABELS, "note": note}


def _campaign_hull(ledger: Ledger) -> tuple[PotentialHull | None, str]:
    """The hulls that a campaign searched on, and what must be known about them."""
    config, identity = Config.from_ledger(ledger.config), ledger.identity
    if config.hull.kind == "alex-mp":
        return None, "Diagrams are drawn of the two hulls that ship, and this campaign searched on Alex-MP."
    try:
        hull = load_hull(identity["potential"]["name"], config.hull.kind)
    except AnchorError as error:
        return None, f"There are no hulls to draw: {error.message}."
    if hull.identity.checkpoint_hash != identity["potential"]["hash"]:
        return None, "There are no hulls to draw: they ship for other weights of this potential."
    if hull.identity.hash == identity["hull"]:
        return hull, ""
    return hull, (
        "The hulls that ship have changed since this search. Distances are those of the search; diagrams and "
        "what a crystal decomposes into are drawn with today's phases."
    )


def _place(entry: dict[str, Any], hull: PotentialHull) -> None:
    """Where one entry lies on the scale of each database, and what it decomposes into."""
    amounts = np.bincount(entry["crystal"]["numbers"], minlength=119)[None].astype(np.float64)
    if entry.get("energy_ev") is not None:
        energy = np.array([entry["energy_ev"] / entry["atoms"]])
        scales = {
            name: float(database.calibration.formation_energy(amounts, energy)[0])
            for name, database in hull.databases.items()
        }
        entry["on_scale"] = {name: round(e, DECIMALS) for name, e in scales.items() if np.isfinite(e)}
    if "decomposition" not in entry:
        entry["decomposition"] = {name: str(d) for name, d in hull.decompositions(amounts[0]).items()}


def _fractions(entry: dict[str, Any], numbers: Sequence[int]) -> list[float]:
    mine = entry["crystal"]["numbers"]
    return [mine.count(z) / len(mine) for z in numbers]


def _diagram(hull: Hull, system: tuple[int, ...], targets: NDArray[np.float64]) -> dict[str, Any]:
    """Phases on the hull of a system and the lines between them.

    What the potential filled in at the very composition of a target does not compete with it, and is left
    out, as in the distances.  # targets [n, k]
    """
    if not hull.elements.issuperset(system):
        return {"phases": [], "lines": []}
    fractions, energies, rows = hull.index.gather(system)
    phases = hull.index.phases
    filled = phases.sources[rows] == FILLED
    own = (np.abs(fractions.T[:, None] - targets[None]).max(axis=2) < SAME_FRACTIONS).any(axis=1)
    kept = np.flatnonzero(~(filled & own))
    fractions, energies, rows, filled = fractions[:, kept], energies[kept], rows[kept], filled[kept]
    lines = _lower_edges(fractions, energies)
    on_hull = sorted({*range(len(system)), *(i for line in lines for i in line)})
    place = {i: n for n, i in enumerate(on_hull)}
    return {
        "phases": [
            [
                np.round(fractions[:, i], DECIMALS).tolist(), phases.formula(int(rows[i])),
                round(float(energies[i]), DECIMALS), bool(filled[i]),
            ]
            for i in on_hull
        ],
        "lines": [[place[i], place[j]] for i, j in lines],
    }  # fmt: skip


def _lower_edges(fractions: NDArray[np.float64], energies: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Edges of the lower convex hull; the k elements, which are at zero, come first.  # [k, n], [n]"""
    k = len(fractions)
    if fractions.shape[1] == k:  # no compound
        return [(i, j) for i in range(k) for j in range(i + 1, k)]
    hull = ConvexHull(np.column_stack([fractions[:-1].T, energies]))
    facets = hull.simplices[hull.equations[:, k - 1] < DOWN].tolist()
    edges = {(min(i, j), max(i, j)) for facet in facets for i in facet for j in facet if i != j}
    return sorted(edges)

"""What a filling changes: where the hulls are lower, and how far known compounds rise above them."""

from __future__ import annotations

from typing import Any

import numpy as np

from anchor.filling.guards import DATABASES, Guards
from anchor.hull.filling import Filling
from anchor.hull.hull import Hull
from anchor.hull.phases import Phases

MOVED = 1e-6
"""eV/atom: smaller changes are none."""


def effect(guards: Guards, filling: Filling) -> dict[str, Any]:
    """By database: phases and systems with a lower hull, and the rise of the known stable compounds.

    Known are the reference crystals that are stable in OQMD; each rises by what the filling lowers the hull
    at its composition.
    """
    reference = guards.reference
    known = reference.crystals.compositions.amounts[reference.stability <= 0]
    known = known[(known > 0).sum(axis=1) > 1]
    found: dict[str, Any] = {}
    for name in DATABASES:
        database = guards.hull.databases[name]
        old, own = database.union, filling.phases(database.calibration)
        new = Hull(Phases.concatenate([old.index.phases, own]), old.identity)
        amounts = filling.crystals.compositions.amounts
        lowered = old.hull_energy(amounts) - new.hull_energy(amounts)
        systems = {tuple(np.flatnonzero(row).tolist()) for row in amounts[lowered > MOVED]}
        rise = old.hull_energy(known) - new.hull_energy(known)
        found[name] = {
            "phases_where_the_hull_is_lower": int((lowered > MOVED).sum()),
            "systems_with_a_lower_hull": {
                "binary": sum(len(s) == 2 for s in systems),
                "ternary": sum(len(s) == 3 for s in systems),
            },
            "largest_lowering_ev_per_atom": round(float(lowered.max(initial=0.0)), 4),
            "known_stable": len(known),
            "known_moved": int(np.nansum(rise > MOVED)),
            "known_moved_by_more_than_0.01": int(np.nansum(rise > 0.01)),
            "known_moved_p99_ev_per_atom": round(float(np.nanquantile(rise, 0.99)), 4),
            "known_moved_max_ev_per_atom": round(float(np.nanmax(rise)), 4),
        }
    return found

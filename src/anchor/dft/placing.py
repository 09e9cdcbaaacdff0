"""Where energies of other people's calculations lie on the hulls, beside the potential's.

The scheme: a crystal's distance to a hull is the energy of the reaction from its competing phases, each with
the energy that was imported for it, from the same code with the same settings. A competing phase that was not
imported, and an element whose energy the databases correct, stands at the database's difference to phases
that were: the distance is then marked as mixed. Without any imported phase to tie it to there is no distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anchor.crystals.crystals import Crystals
from anchor.dft.results import Result
from anchor.dft.stability import Distance, Stability, is_corrected
from anchor.outcomes.judge import Judge
from anchor.outcomes.rows import each_hull

SCHEME = (
    "reaction energies among imported phases of one code and its settings; what was not imported at the "
    "database's energy difference"
)


@dataclass(frozen=True, eq=False)
class Placed:
    """An imported energy on the hulls.

    Attributes:
        result: What was imported.
        distances: To each hull, by the scheme above.
        potential: Energy above each hull under the potential, at the same geometry, eV/atom.
    """

    result: Result
    distances: tuple[Distance, ...]
    potential: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        result = self.result
        return {
            "source": result.source,
            "formula": result.formula,
            "code": result.code,
            "settings": result.settings,
            "status": result.energy.text,
            "energy_ev_per_atom": result.energy.per_atom,
            "hulls": {
                d.database: {
                    "dft_above_ev_per_atom": d.above,
                    "potential_above_ev_per_atom": self.potential.get(d.database),
                    "mixed": d.mixed,
                    "products": d.text,
                    "notes": list(d.notes),
                }
                for d in self.distances
            },
        }


def place(results: Sequence[Result], stability: Stability, judge: Judge) -> list[Placed]:
    """Every result on the hulls.

    Args:
        results: What was imported.
        stability: Knows both hulls and what the databases list.
        judge: The potential's energies, nothing relaxed.
    """
    table = judge(Crystals.concatenate(result.crystal for result in results))
    found = []
    for result, hulls in zip(results, each_hull(table), strict=True):
        mine = [r for r in results if (r.code, r.settings) == (result.code, result.settings)]
        energies = {
            r.formula: r.energy
            for r in sorted(mine, key=lambda r: -(r.energy.per_atom or 0.0))  # the lowest comes last
            if r.energy.per_atom is not None and not is_corrected(r.formula)
        }
        distances = stability.placed(result.formula, result.energy, energies)
        found.append(Placed(result, distances, {name: e for name, e in hulls.items() if e is not None}))
    return found

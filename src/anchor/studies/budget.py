"""What a study would take before it is begun."""

from __future__ import annotations

from typing import Any

from anchor.search.ledger import Ledger
from anchor.studies.cells import Results
from anchor.studies.declaration import Searched, Study
from anchor.studies.tables import spending

GPU_HOURS = 168
"""Of one search of the paper: seven days on an A100."""


def plan_study(study: Study, results: Results) -> dict[str, Any]:
    """Counts, and hours at the mean speed of all searches in the folder; None: nothing measured yet."""
    scale = results.scale
    searches = {row.cell for row in study.made if isinstance(row.cell, Searched)}
    evaluations = {
        part
        for row in study.made
        if study.evaluated
        for part in ((row.cell, row.judging), (row.cell, row.judging.base))
    }
    done = sum(results.searched(cell) for cell in searches)
    structures = (len(searches) - done) * scale.structures
    seconds, measured = _seconds_per_structure(results)
    return {
        "scale": scale.name,
        "budget": scale.budget,
        "searches": len(searches),
        "searches_done": done,
        "structures_left": structures,
        "evaluations": len(evaluations),
        "structures_evaluated": len(evaluations) * scale.n * scale.seeds,
        "seconds_per_structure_here": seconds,
        "measured_on_structures": measured,
        "hours_of_searching_here": None if seconds is None else round(structures * seconds / 3600, 1),
        "gpu_hours_in_the_paper": len(searches) * GPU_HOURS,
    }


def _seconds_per_structure(results: Results) -> tuple[float | None, int]:
    """Of every search in the folder, finished or not, whatever its scale."""
    total, structures = 0.0, 0
    for path in sorted((results.folder / "searches").glob("*/ledger.db")):
        n, _, spent = spending(Ledger.open(path))
        total, structures = total + sum(spent.values()), structures + n
    return (round(total / structures, 3), structures) if structures else (None, 0)

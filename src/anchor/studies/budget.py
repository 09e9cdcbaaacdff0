"""What a study would take before it is begun."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from anchor.evaluate.internal import InternalProtocol
from anchor.models.data import reference_split
from anchor.search.ledger import Ledger
from anchor.studies.cells import Results, Unit, waves
from anchor.studies.declaration import Study
from anchor.studies.kinds import Distilled, Generated, Searched
from anchor.studies.making import begun, same_threads
from anchor.studies.tables import spending

GPU_HOURS = 168
"""Of one search of the paper: seven days on an A100."""
CRYSTALS, STEPS = 8, 5
"""That tell the speed of this machine."""


def plan_study(study: Study, results: Results, *, measure: bool = False) -> dict[str, Any]:
    """Counts, and CPU hours at the mean speed of the searches of this kind in the folder.

    Args:
        measure: Where there are none, relax a few crystals to know the speed; else it is None.
    """
    return plan_studies([study], results, measure=measure)[study.name]


def plan_studies(
    studies: Iterable[Study], results: Results, *, measure: bool = False
) -> dict[str, dict[str, Any]]:
    """The same for several studies, by name; what they share counts in each."""
    scale = results.scale
    seconds, measured = seconds_per_structure(results)
    if seconds is None and measure:
        seconds = steps_per_search(results) * seconds_per_step(scale.config().relax.potential)
        measured = f"{CRYSTALS} crystals for {STEPS} steps just now; every relaxation at its step limit"
    return {study.name: _plan(study, results, seconds, measured) for study in studies}


def _plan(study: Study, results: Results, seconds: float | None, measured: str) -> dict[str, Any]:
    scale = results.scale
    units = [unit for wave in waves(study) for unit in wave]
    making = [unit for unit in dict.fromkeys(units) if unit.judging is None]
    judging = [unit for unit in dict.fromkeys(units) if unit.judging is not None]
    campaigns = [unit for unit in making if proposed(unit, results)]
    left = sum(proposed(unit, results) for unit in campaigns if not unit.finished(results))
    evaluated = sum(not unit.finished(results) for unit in judging) * scale.n * scale.seeds
    trained = [unit.cell for unit in making if not proposed(unit, results)]
    return {
        "scale": scale.name,
        "budget": scale.budget,
        "campaigns": len(campaigns),
        "campaigns_done": sum(unit.finished(results) for unit in campaigns),
        "structures_left": left,
        "evaluations": len(judging),
        "evaluations_done": sum(unit.finished(results) for unit in judging),
        "structures_to_evaluate": evaluated,
        "relaxations_at_most": left + evaluated,
        "training_steps_left": sum(
            training_steps(cell, results) for cell in trained if not results.place.finished(cell)
        ),
        "cpu_seconds_per_structure_here": None if seconds is None else round(seconds, 3),
        "measured_on": measured,
        "cpu_hours_of_campaigns_here": None if seconds is None else round(left * seconds / 3600, 1),
        "gpu_hours_in_the_paper": GPU_HOURS * sum(isinstance(unit.cell, Searched) for unit in campaigns),
    }


def proposed(unit: Unit, results: Results) -> int:
    """Structures that the campaign of a cell proposes; 0: it is none."""
    cell = unit.cell
    if isinstance(cell, Searched) or (isinstance(cell, Generated) and cell.reward is not None):
        return cell.config(results.scale).run.structures
    return 0


def training_steps(cell: object, results: Results) -> int:
    """Of likelihood training, all arms and controls."""
    if isinstance(cell, Distilled):
        return cell.settings(results.scale).steps * (1 + len(cell.arms))
    if isinstance(cell, Generated) and cell.reward is None:
        return results.scale.generator
    return 0


def seconds_per_structure(results: Results) -> tuple[float | None, str]:
    """Of every campaign in the folder that relaxes as this scale does, finished or not."""
    wanted = results.scale.config().model_dump(mode="json")
    total, structures = 0.0, 0
    for path in sorted((results.folder / "searches").glob("*/ledger.db")):
        if not begun(path.parent):
            continue
        ledger = Ledger.open(path)
        alike = ledger.config["relax"] == wanted["relax"]
        if alike and ledger.config["reward"]["order"] == wanted["reward"]["order"]:
            n, _, spent = spending(ledger)
            total, structures = total + sum(spent.values()), structures + n
    return (total / structures, f"{structures} structures of searches here") if structures else (None, "")


def steps_per_search(results: Results) -> int:
    """Relaxation steps of a structure in a search, at most."""
    return results.scale.config().relax.max_steps


def seconds_per_step(potential: str) -> float:
    """CPU seconds of a relaxation step of one crystal of the reference, measured now on one thread."""
    protocol = InternalProtocol(potential=potential, cell=False, max_steps=STEPS, fmax=1e-9)
    crystals = reference_split("test")[:CRYSTALS]
    with same_threads():
        protocol.measure(crystals[:1])  # loads everything
        began = time.process_time()
        protocol.measure(crystals)
    return (time.process_time() - began) / (CRYSTALS * (STEPS + 1))

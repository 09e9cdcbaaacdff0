"""Evaluations and studies as tables for the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchor.errors import AnchorError
from anchor.evaluate.compare import compare
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.render import heading, number
from anchor.evaluate.store import Store
from anchor.studies.cells import Results
from anchor.studies.declaration import Study
from anchor.studies.declared import STUDIES
from anchor.studies.scales import SCALES
from anchor.studies.tables import make_table, unfinished


def evaluation_page(folder: Path) -> dict[str, Any]:
    """Metrics of an evaluation with counts and meaning; of one that is not finished its settings."""
    settings = Store(folder).settings
    if not (folder / "summary.json").is_file():
        return {"label": str(settings.get("label", folder.name)), "finished": False, "metrics": []}
    done = FinishedEvaluation.load(folder)
    (group,) = compare([done], every_metric=True)
    return {
        "label": done.label,
        "finished": True,
        "command": str(done.summary.get("command", "")),
        "footer": done.footer,
        "structures": done.summary["read"]["rows"],
        "seeds": len(done.summary["seeds"]),
        "metrics": [
            {"name": heading(metric), "value": number(metric, cell), "about": metric.description}
            for metric, cell in zip(group.metrics, group.cells[0], strict=True)
        ],
    }


def study_page(folder: Path) -> dict[str, Any]:
    """Tables of all studies that have a finished row in this folder."""
    tables = []
    for scale in SCALES.values():
        results = Results(folder, scale)
        for study in STUDIES.values():
            made = len(study.made) - len(unfinished(study, results))
            if made:
                tables.append(_table(study, results, made))
    return {"tables": tables}


def _table(study: Study, results: Results, made: int) -> dict[str, Any]:
    head = {
        "study": study.name,
        "title": study.title,
        "claim": study.claim,
        "scale": results.scale.name,
        "made": made,
        "of": len(study.made),
    }
    try:
        table = make_table(study, results)
    except AnchorError as error:
        return {**head, "head": [], "rows": [], "notes": [str(error)]}
    return {**head, "head": table.head, "rows": table.rows, "notes": [*table.budgets, *table.notes]}

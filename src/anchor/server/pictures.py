"""What the report draws of one campaign and of several, made again once something changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from anchor.outcomes.tally import LABELS
from anchor.report.data import campaign_headline, overview
from anchor.report.summary import Run
from anchor.search.ledger import Ledger
from anchor.server.live import changed

COMPARED = ("valid", "novel", "metastable", "stable", "msun", "sun")
"""Rates that campaigns are compared by."""
DRAWN = ("metastable", "stable", "msun", "sun")
"""Those that are drawn over the run, too."""
MOST_KEPT = 32
"""Campaigns whose pictures are kept."""


class Pictures:
    """Campaigns as they were last read, by folder."""

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[Any, dict[str, Any], dict[str, Any]]] = {}
        self._lock = Lock()

    def of_campaign(self, folder: Path) -> dict[str, Any]:
        """Curves, elements, energies and time, as the report's scripts take them, and the report's words."""
        return self._read(folder)[0]

    def compared(self, chosen: Sequence[tuple[Path, str]]) -> dict[str, Any]:
        """Several campaigns: rates with intervals beside one another, and their curves."""
        summaries = [self._read(folder)[1] for folder, _ in chosen]
        labels = [label for _, label in chosen]
        return {
            "campaigns": [
                {
                    "label": label,
                    "proposed": found["proposed"],
                    "relaxations": found["relaxations"],
                    "hours": found["hours"],
                    "source": found["source"],
                    "potential": found["potential"]["name"],
                    "prior": found["prior"]["name"],
                    "finds": found["finds"],
                    "of_proposed": {name: found["of_proposed"][name] for name in COMPARED},
                }
                for label, found in zip(labels, summaries, strict=True)
            ],
            "labels": {name: LABELS[name] for name in COMPARED},
            "curves": {
                name: [
                    {**found["curves"][name], "name": label}
                    for label, found in zip(labels, summaries, strict=True)
                    if name in found["curves"]
                ]
                for name in DRAWN
            },
        }

    def _read(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Overview and summary."""
        with self._lock:
            mark = changed(folder)
            if folder not in self._kept or self._kept[folder][0] != mark:
                with closing(Ledger.open(folder)) as ledger:
                    run = Run.read(ledger)
                    drawn = {**overview(run, ledger), "head": asdict(campaign_headline(ledger))}
                    self._kept[folder] = (mark, drawn, run.summary())
                while len(self._kept) > MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)))
            return self._kept[folder][1:]

"""A campaign in numbers: what a paper's table or another program needs, small enough to keep in git."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchor.config import Config
from anchor.outcomes.tally import Tally, split_time
from anchor.report.curves import CURVE_COLUMNS, Curve, campaign_curves
from anchor.search.finds import Finds
from anchor.search.ledger import Ledger
from anchor.statistics import wilson_interval

SOURCES = {
    "policy": "policy",
    "imagined": "policy, learning from free rollouts",
    "adaptive": "screened formulas, ranked anew as outcomes come in",
    "screened": "screened formulas",
    "random": "random formulas",
    "neutral": "charge-neutral formulas",
    "generator": "crystals of a generator",
}
SCREENED = ("adaptive", "screened")
"""Sources that propose nothing that is known, and no formula twice."""
RATES = ("valid", "unique", "novel", "metastable", "stable", "msun", "sun")


@dataclass(frozen=True)
class Run:
    """One campaign, read once.

    Attributes:
        label: For legends.
        tally: Counts of the whole run.
        curves: See `campaign_curves`.
        found: Structures proposed when each MSUN candidate came.  # [msun]
        relaxations: Candidates that were relaxed.
        evaluations: Calls of the potential.
        seconds: Time by part without overlap, s.
        finds: Counts of the refined candidates, see `Finds.counts`.
    """

    label: str
    config: Config
    identity: dict[str, Any]
    tally: Tally
    curves: dict[str, Curve]
    found: list[int]
    relaxations: int
    evaluations: int
    seconds: dict[str, float]
    finds: dict[str, int]

    @classmethod
    def read(cls, ledger: Ledger, label: str | None = None) -> Run:
        """Read a ledger; it may belong to a campaign that is still running."""
        config = Config.from_ledger(ledger.config)
        steps = ledger.step_rows()
        rows = [
            row
            for row in ledger.rows((*CURVE_COLUMNS, "id", "relaxation", "evaluations"))
            if row["step"] < len(steps)  # a running campaign may have stored a step since
        ]
        tally, counter = new_tally(config), new_tally(config)
        curves = campaign_curves(rows, steps, tally)
        total: dict[str, float] = {}
        for step in steps:
            for name, seconds in step["seconds"].items():
                total[name] = total.get(name, 0.0) + seconds
        return cls(
            label=label or SOURCES[config.policy.source],
            config=config,
            identity=ledger.identity,
            tally=tally,
            curves=curves,
            found=[row["id"] + 1 for row in rows if counter.add(row)["msun"]],
            relaxations=sum(row["relaxation"] is not None for row in rows),
            evaluations=sum(row["evaluations"] or 0 for row in rows),
            seconds=split_time(total),
            finds=Finds.read(ledger).counts(),
        )

    def summary(self) -> dict[str, Any]:
        """Counts, rates with intervals, time and curves as plain values."""
        counts, proposed = self.tally.counts, self.tally.proposed
        total = sum(self.seconds.values())
        return {
            "label": self.label,
            "source": self.config.policy.source,
            "start_from": self.config.policy.start_from,
            "seed": self.config.run.seed,
            "prior": self.identity["prior"],
            "potential": self.identity["potential"],
            "reference": self.identity["reference"],
            "hull": {"kind": self.config.hull.kind, "hash": self.identity["hull"]},
            "proposed": proposed,
            "relaxations": self.relaxations,
            "evaluations_of_the_potential": self.evaluations,
            "counts": dict(counts),
            "finds": self.finds,
            "status": dict(sorted(self.tally.status.items())),
            "of_proposed": {name: _rate(counts[name], proposed) for name in RATES},
            "of_relaxations": {
                name: _rate(counts[name], self.relaxations)
                for name in ("metastable", "stable", "msun", "sun")
            },
            "hours": round(total / 3600, 3),
            "share_of_time": {name: round(s / total, 4) for name, s in self.seconds.items()} if total else {},
            "curves": {name: _plain(curve) for name, curve in self.curves.items()},
        }


def read_runs(locations: Sequence[str]) -> list[Run]:
    """Campaigns to lay over each other; their labels differ."""
    runs = [Run.read(Ledger.open(location)) for location in locations]
    labels = [run.label for run in runs]
    if len(set(labels)) == len(labels):
        return runs
    names = [Path(location).name or location for location in locations]
    return [
        Run(**{**vars(run), "label": f"{run.label} ({name})" if labels.count(run.label) > 1 else run.label})
        for run, name in zip(runs, names, strict=True)
    ]


def new_tally(config: Config) -> Tally:
    """An empty tally with a campaign's thresholds."""
    evaluation = config.evaluation
    return Tally(evaluation)


def _rate(count: int, n: int) -> list[float] | None:
    """Rate, lower and upper end of its 95 % interval; None of nothing."""
    if n == 0:
        return None
    low, high = wilson_interval(np.array([count]), np.array([n]))
    return [round(value, 5) for value in (count / n, float(low[0]), float(high[0]))]


def _plain(curve: Curve) -> dict[str, list[float | None]]:
    return {
        name: [float(f"{v:.4g}") if np.isfinite(v) else None for v in getattr(curve, name).tolist()]
        for name in ("structures", "value", "low", "high", "trials")
    }

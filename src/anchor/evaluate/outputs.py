"""What an evaluation leaves behind, and reading it again.

table.csv, table.jsonl  one row per structure, all seeds
generated.extxyz        structures as read or generated
relaxed.extxyz          structures as relaxed, with energies
summary.json            every metric by seed, mean and standard deviation over seeds, counts and intervals
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.protocol import Metric, Protocol, Row, as_plain, over_seeds
from anchor.evaluate.store import Store
from anchor.formats import write

EXTXYZ_COLUMNS = {
    "energy_ev": "energy",
    "energy_above_hull_ev_per_atom": "e_above_hull",
    "formation_energy_ev_per_atom": "formation_energy_per_atom",
    "seed": "seed",
    "index": "index",
}
"""Columns that go along with the relaxed structures, under the names of the field."""


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation.

    Attributes:
        folder: Where it is.
        summary: Content of summary.json.
    """

    folder: Path
    summary: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Evaluation:
        path = folder / "summary.json"
        if not path.is_file():
            hint = (
                "it is not finished: repeat its command"
                if Store.is_one(folder)
                else "see: anchor evaluate -h"
            )
            raise InputError(f"{folder} has no summary of an evaluation", hint)
        return cls(folder, json.loads(path.read_text(encoding="utf-8")))

    @property
    def label(self) -> str:
        return str(self.summary["label"])

    @property
    def footer(self) -> dict[str, str]:
        return dict(self.summary["footer"])

    @property
    def metrics(self) -> list[Metric]:
        """How each metric is shown, in order."""
        return [Metric(**found["metric"]) for found in self.summary["metrics"].values()]

    def rows(self) -> list[Row]:
        """The table, all seeds, in sampling order."""
        with (self.folder / "table.jsonl").open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def summarise(protocol: Protocol, tables: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Every metric: by seed, over seeds (mean and sample standard deviation), and of all rows together."""
    by_seed = [protocol.metrics(rows) for rows in tables]
    pooled = protocol.metrics([row for rows in tables for row in rows])
    found = {}
    for metric in protocol.metric_list:
        values = [seed[metric.name] for seed in by_seed]
        spread = over_seeds(values, count=metric.show == "count")
        found[metric.name] = {
            "metric": asdict(metric),
            "mean": _finite(spread.value),
            "std": _finite(spread.std),
            "by_seed": [as_plain(value) for value in values],
            "pooled": as_plain(pooled[metric.name]),
        }
    return found


def write_outputs(
    store: Store,
    protocol: Protocol,
    tables: Sequence[Sequence[Row]],
    raw: Sequence[Sequence[Crystals | None]],
    relaxed: Sequence[Sequence[Crystals | None]],
) -> Evaluation:
    """Write tables, structures and summary of all seeds."""
    folder, settings = store.folder, store.settings
    rows = [row for table in tables for row in table]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    _write_csv(folder / "table.csv", columns, rows)
    for name, lines in protocol.tables(rows, label=settings["label"]).items():
        _write_csv(folder / name, list(lines[0]), lines)
    with (folder / "table.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({key: row.get(key) for key in columns}) + "\n" for row in rows)
    _write_crystals(folder / "generated.extxyz", rows, [c for one in raw for c in one], ("seed", "index"))
    _write_crystals(
        folder / "relaxed.extxyz", rows, [c for one in relaxed for c in one], tuple(EXTXYZ_COLUMNS)
    )
    read = {
        "structures": len(rows),
        "rows": sum(len(table) for table in tables),
        "with_crystal": sum(crystal is not None for one in raw for crystal in one),
        "status": {s: sum(row["status"] == s for row in rows) for s in sorted({r["status"] for r in rows})},
    }
    kept = ("label", "name", "protocol", "n", "seeds", "prior", "footer", "anchor", "command")
    summary = {
        **{key: settings[key] for key in kept},
        "read": read,
        "metrics": summarise(protocol, tables),
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return Evaluation(folder, summary)


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns)
        writer.writeheader()
        writer.writerows(rows)


def _write_crystals(
    path: Path, rows: Sequence[Row], crystals: Sequence[Crystals | None], columns: Sequence[str]
) -> None:
    there = [(row, c) for row, c in zip(rows, crystals, strict=True) if c is not None]
    if not there:
        return
    properties = {
        EXTXYZ_COLUMNS[column]: np.array(
            [np.nan if row.get(column) is None else row[column] for row, _ in there], dtype=np.float64
        )
        for column in columns
    }
    ids = [f"{row['seed']}-{row['index']}-{row['formula']}" for row, _ in there]
    write(path, Crystals.concatenate(c for _, c in there), ids, properties, overwrite=True)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None

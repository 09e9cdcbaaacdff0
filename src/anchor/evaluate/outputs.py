"""What an evaluation leaves behind, and reading it again.

table.csv, table.jsonl  one row per structure, all seeds
generated.extxyz        structures as read or generated
relaxed.extxyz          structures as relaxed, with energies
summary.json            every metric by seed, mean and standard deviation over seeds, counts and intervals
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anchor.errors import InputError
from anchor.evaluate.protocol import Metric, Protocol, as_plain, finite, over_seeds
from anchor.evaluate.store import Store
from anchor.formats import write
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION
from anchor.outcomes.table import Outcomes
from anchor.reading import json_object, plain_file, read_json
from anchor.writing import draft, replace_file

DAMAGED = "the command in its evaluation.json writes it again"
EXTXYZ_COLUMNS = {
    ENERGY: "energy",
    ABOVE: "e_above_hull",
    FORMATION: "formation_energy_per_atom",
    "seed": "seed",
    "index": "index",
}
"""Columns that go along with the relaxed structures, under the names of the field."""


@dataclass(frozen=True)
class FinishedEvaluation:
    """A finished evaluation.

    Attributes:
        folder: Where it is.
        summary: Content of summary.json.
    """

    folder: Path
    summary: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> FinishedEvaluation:
        path = folder / "summary.json"
        if not path.is_file():
            hint = (
                "it is not finished: repeat its command"
                if Store.is_one(folder)
                else "see: anchor evaluate -h"
            )
            raise InputError(f"{folder} has no summary of an evaluation", hint)
        summary = read_json(path, hint=DAMAGED)
        if missing := [key for key in ("label", "footer", "metrics", "seeds", "read") if key not in summary]:
            raise InputError(f"{path} is damaged: it has no {missing[0]}", DAMAGED)
        return cls(folder, summary)

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

    def rows(self) -> list[dict[str, Any]]:
        """The table in plain values, all seeds, in sampling order."""
        path = plain_file(self.folder / "table.jsonl")
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [json_object(text, f"{path}:{i}", hint=DAMAGED) for i, text in enumerate(lines, start=1)]


def summarise(protocol: Protocol, tables: Sequence[Outcomes]) -> dict[str, Any]:
    """Every metric: by seed, over seeds (mean and sample standard deviation), and of all rows together."""
    by_seed = [protocol.metrics(table) for table in tables]
    pooled = protocol.metrics(Outcomes.concatenate(tables))
    found = {}
    for metric in protocol.metric_list:
        values = [seed[metric.name] for seed in by_seed]
        spread = over_seeds(values, count=metric.show == "count")
        found[metric.name] = {
            "metric": asdict(metric),
            "mean": finite(spread.value),
            "std": finite(spread.std),
            "by_seed": [as_plain(value) for value in values],
            "pooled": as_plain(pooled[metric.name]),
        }
    return found


def write_outputs(
    store: Store, protocol: Protocol, drawn: Sequence[Outcomes], tables: Sequence[Outcomes]
) -> FinishedEvaluation:
    """Write tables, structures and summary of all seeds.

    Args:
        store: Folder.
        protocol: That made them.
        drawn: Structures as read or generated, by seed.
        tables: Finished tables with the structures as relaxed, by seed.
    """
    folder, settings = store.folder, store.settings
    raw, table = Outcomes.concatenate(drawn), Outcomes.concatenate(tables)
    rows = list(table.rows())
    _write_csv(folder / "table.csv", rows)
    for name, lines in protocol.tables(table, label=settings["label"]).items():
        _write_csv(folder / name, lines)
    replace_file(folder / "table.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    _write_crystals(folder / "generated.extxyz", raw, ("seed", "index"))
    _write_crystals(folder / "relaxed.extxyz", table, tuple(EXTXYZ_COLUMNS))
    read = {
        "structures": raw.n,
        "rows": table.n,
        "with_crystal": len(raw.crystals),
        "status": dict(sorted(Counter(table.texts("status")).items())),
    }
    kept = ("label", "name", "protocol", "n", "seeds", "prior", "footer", "anchor", "command")
    summary = {
        **{key: settings[key] for key in kept},
        "read": read,
        "metrics": summarise(protocol, tables),
    }
    replace_file(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    return FinishedEvaluation(folder, summary)


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with draft(path) as made, made.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_crystals(path: Path, table: Outcomes, columns: Sequence[str]) -> None:
    there = table.take(table.at)
    if not there.n:
        return
    properties = {EXTXYZ_COLUMNS[column]: there.numbers(column) for column in columns}
    ids = [
        f"{row['seed']}-{row['index']}-{row['formula']}" for row in there.rows(("seed", "index", "formula"))
    ]
    write(path, there.crystals, ids, properties, overwrite=True)

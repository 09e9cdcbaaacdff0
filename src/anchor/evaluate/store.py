"""The folder of an evaluation: settings, append-only checkpoints, and the crystals in them without loss.

    evaluation.json                settings, compared when the evaluation goes on
    checkpoint/seed-0.drawn.jsonl      what was read or generated, one table per line and block
    checkpoint/seed-0.measured.jsonl   what `Protocol.measure` gave, one table per line and chunk

A line is written at once and only counts with its end of line, so a run that is killed loses the block it was
working on and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.outcomes.table import Outcomes
from anchor.reading import read_json
from anchor.writing import check_place, replace_file

SETTINGS = "evaluation.json"
NOT_COMPARED = frozenset({"command", "label", "seeds"})
"""Settings that may change when an evaluation goes on: how it is called, and further seeds."""

Stage = Literal["drawn", "measured"]


class Store:
    """An evaluation's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def is_one(cls, folder: Path) -> bool:
        return (folder / SETTINGS).is_file()

    @property
    def settings(self) -> dict[str, Any]:
        path = self.folder / SETTINGS
        if not path.is_file():
            raise InputError(f"{self.folder} is not the folder of an evaluation", "make one: anchor evaluate")
        return read_json(path, hint="bring back a copy, or evaluate into another folder")

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Start here, or go on if everything that decides the numbers is as it was.

        Raises:
            InputError: The folder holds an evaluation with other settings, or something else.
        """
        check_place(self.folder, folder=True)
        path = self.folder / SETTINGS
        new = json.loads(json.dumps(settings))  # as it reads when it comes back
        if path.is_file():
            old = self.settings
            changed = sorted(
                key for key in (old.keys() | new.keys()) - NOT_COMPARED if old.get(key) != new.get(key)
            )
            if changed:
                raise InputError(
                    f"{self.folder} holds an evaluation with another "
                    + "; ".join(
                        f"{key}: {_short(old.get(key))}, not {_short(new.get(key))}" for key in changed
                    ),
                    "give another --out, or go on as it began: "
                    + str(old.get("command", "the same options")),
                )
            if not set(old["seeds"]) <= set(new["seeds"]):
                raise InputError(
                    f"{self.folder} has the seeds {old['seeds']}, and {new['seeds']} leaves some out",
                    "seeds can be added to an evaluation; for fewer give another --out",
                )
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(f"{self.folder} holds something else than an evaluation", "give another --out")
        (self.folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(new, indent=1) + "\n")

    def table(self, stage: Stage, seed: int) -> Outcomes:
        """Everything stored of a stage; half a line at the end, left by a killed run, is cut off."""
        path = self.path(stage, seed)
        content = path.read_bytes() if path.is_file() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        lines = enumerate(content[:whole].splitlines(), start=1)
        return Outcomes.concatenate(_table(line, f"{path}:{i}") for i, line in lines)

    def append(self, stage: Stage, seed: int, table: Outcomes) -> None:
        """Add one line and wait until it is on disk."""
        text = json.dumps(table.to_json(), allow_nan=False) + "\n"
        with self.path(stage, seed).open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def path(self, stage: Stage, seed: int) -> Path:
        return self.folder / "checkpoint" / f"seed-{seed}.{stage}.jsonl"


def _table(line: bytes, name: str) -> Outcomes:
    """One line of a checkpoint; `name` says which."""
    try:
        return _read(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the checkpoint {name} is damaged: {error}",
            "cut the file off before this line to go on from there, or evaluate into another folder",
        ) from None


def _read(stored: dict[str, Any] | list[dict[str, Any]]) -> Outcomes:
    """A table; older folders hold lists of rows with a crystal each."""
    if isinstance(stored, dict):
        return Outcomes.from_json(stored)
    crystals = [row.pop("crystal", row.pop("relaxed", None)) for row in stored]
    at = np.array([i for i, crystal in enumerate(crystals) if crystal is not None], dtype=np.int64)
    batch = Crystals.concatenate(
        Crystals(np.array([len(c["numbers"])]), **{name: np.array(values) for name, values in c.items()})
        for c in crystals
        if c is not None
    )
    return Outcomes.from_rows(stored).with_crystals(batch, at)


def _short(value: Any, most: int = 120) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"

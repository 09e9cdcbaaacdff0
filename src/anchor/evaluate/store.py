"""The folder of an evaluation: settings, append-only checkpoints, and the crystals in them without loss.

    evaluation.json                settings, compared when the evaluation goes on
    checkpoint/seed-0.drawn.jsonl      what was read or generated, one line per block
    checkpoint/seed-0.measured.jsonl   what `Protocol.measure` gave, one line per chunk

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
from anchor.evaluate.protocol import Row

SETTINGS = "evaluation.json"
NOT_COMPARED = frozenset({"command", "label", "seeds"})
"""Settings that may change when an evaluation goes on: how it is called, and further seeds."""

CRYSTAL = "crystal"
"""Key of the crystal as read or generated in the rows of the stage "drawn"."""

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
        return json.loads(path.read_text(encoding="utf-8"))

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Start here, or go on if everything that decides the numbers is as it was.

        Raises:
            InputError: The folder holds an evaluation with other settings, or something else.
        """
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
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)

    def lines(self, stage: Stage, seed: int) -> list[list[Row]]:
        """Everything stored of a stage; half a line at the end, left by a killed run, is cut off."""
        path = self.path(stage, seed)
        if not path.is_file():
            return []
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        return [[_decoded(row) for row in json.loads(line)] for line in content[:whole].splitlines()]

    def rows(self, stage: Stage, seed: int) -> list[Row]:
        return [row for line in self.lines(stage, seed) for row in line]

    def append(self, stage: Stage, seed: int, rows: list[Row]) -> None:
        """Add one line and wait until it is on disk."""
        text = json.dumps([_encoded(row) for row in rows], allow_nan=False) + "\n"
        with self.path(stage, seed).open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def path(self, stage: Stage, seed: int) -> Path:
        return self.folder / "checkpoint" / f"seed-{seed}.{stage}.jsonl"


def _encoded(row: Row) -> Row:
    return {key: _crystal_out(v) if isinstance(v, Crystals) else v for key, v in row.items()}


def _decoded(row: Row) -> Row:
    return {key: _crystal_in(v) if isinstance(v, dict) and "lattice" in v else v for key, v in row.items()}


def _crystal_out(crystal: Crystals) -> dict[str, Any]:
    """One crystal for JSON, whose numbers come back bit by bit."""
    assert len(crystal) == 1, f"a batch of {len(crystal)} crystals, not of one"
    return {
        "numbers": crystal.numbers.tolist(),
        "lattice": crystal.lattice[0].tolist(),
        "frac": crystal.frac.tolist(),
    }


def _crystal_in(value: Mapping[str, Any]) -> Crystals:
    numbers = np.array(value["numbers"])
    return Crystals(np.array([len(numbers)]), numbers, np.array(value["frac"]), np.array([value["lattice"]]))


def _short(value: Any, most: int = 120) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"

"""Searches that the page starts: each a process of its own, `anchor search`, never through a shell.

Stopping is Ctrl-C: the step is finished, finds are relaxed, and `anchor resume` goes on as if nothing had
happened. A second time stops at once. When the page ends, its searches are asked to stop in the same way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from anchor.chemistry.elements import INDEX
from anchor.config import load_config
from anchor.errors import AnchorError, InputError, nearest
from anchor.report.summary import SOURCES

WISHES = ("--finds", "--verify")
"""Options of a search that no configuration keeps."""
_HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
ANCHOR = (sys.executable, "-c", f"{_HEARS_CTRL_C}; from anchor.cli.main import run; run()")
"""The program. Below a page in the background (`anchor serve &` in a script) Ctrl-C is ignored from birth."""
UNTRAINED = ("random", "neutral")
MOST_RUNNING = 2
"""Searches at once: each uses all cores, and a third only makes the others slower."""
TAIL = 4000
"""Bytes of a log that the page shows."""
MOST_STRUCTURES = 1_000_000
"""Of a search that is started by a click."""


class SearchRequest(BaseModel):
    """Limits of a search, as chosen on the periodic table."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("", max_length=60, description="folder below runs/; empty: a date")
    structures: int = Field(500, ge=1, le=MOST_STRUCTURES, description="compositions to try")
    elements: list[str] = Field([], max_length=84, description="only these; none: all")
    exclude: list[str] = Field([], max_length=84, description="never these")
    must_contain: list[str] = Field([], max_length=4, description="all of these")
    k: list[int] = Field([2, 3, 4], min_length=1, max_length=3, description="numbers of elements")
    max_atoms: int = Field(20, ge=2, le=20, description="most atoms per cell")
    source: str | None = Field(None, description="who proposes; none: as anchor search does")
    seed: int = Field(0, ge=0, le=2**31, description="of every random draw")
    finds: int = Field(20, ge=0, le=1000, description="best candidates to relax to the end")
    verify: int = Field(12, ge=0, le=1000, description="best finds to attack")

    @field_validator("elements", "exclude", "must_contain")
    @classmethod
    def _known(cls, symbols: list[str]) -> list[str]:
        for symbol in symbols:
            if symbol not in INDEX:
                raise ValueError(
                    f"'{symbol[:20]}' is no element of the search; {nearest(symbol, INDEX)[:100]}"
                )
        return symbols

    @field_validator("source")
    @classmethod
    def _proposer(cls, source: str | None) -> str | None:
        if source is not None and source not in SOURCES:
            raise ValueError(f"'{source[:20]}' proposes nothing; {nearest(source, SOURCES)[:100]}")
        return source

    def check(self) -> None:
        """Refuse limits that leave nothing, before anything is started.

        Raises:
            InputError: Naming them.
        """
        space = {
            "elements": tuple(self.elements) or None,
            "exclude": tuple(self.exclude) or None,
            "must_contain": tuple(self.must_contain) or None,
            "k": tuple(self.k),
            "max_atoms": self.max_atoms,
        }
        load_config(preset="quick", values={f"action_space.{name}": value for name, value in space.items()})
        left = set(self.elements or INDEX) - set(self.exclude)
        if missing := set(self.must_contain) - left:
            raise InputError(f"{', '.join(sorted(missing))}: required, but not allowed", "allow it")
        # the untrained sources draw the number of elements first
        fewest = max(self.k) if self.source in UNTRAINED else min(self.k)
        if len(left) < fewest:
            raise InputError(f"{len(left)} elements are too few for {fewest}", "allow more")

    def arguments(self, folder: Path) -> list[str]:
        """Of `anchor search`."""
        lists = {
            "--elements": self.elements,
            "--exclude": self.exclude,
            "--must-contain": self.must_contain,
            "--k": [str(k) for k in self.k],
        }
        values = {
            "-n": self.structures,
            "--max-atoms": self.max_atoms,
            "--seed": self.seed,
            "--finds": self.finds,
            "--verify": self.verify,
        }
        return [
            *("search", "--out", str(folder)),
            *(part for name, given in lists.items() if given for part in (name, ",".join(given))),
            *(part for name, value in values.items() for part in (name, str(value))),
            *(("--source", self.source) if self.source else ()),
        ]


@dataclass
class Job:
    """A process of ours.

    Attributes:
        process: Running, or ended.
        log: Where its output goes.
        asked: How often it was asked to stop.
    """

    process: subprocess.Popen[bytes]
    log: Path
    asked: int = 0
    command: list[str] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def status(self) -> dict[str, Any]:
        """For the page."""
        running = self.running
        return {
            "state": ("stopping" if self.asked else "running") if running else "ended",
            "code": self.process.returncode,
            "command": ["anchor", *self.command],
            "log": _tail(self.log),
        }


class Jobs:
    """Processes by the key of their campaign.

    Args:
        logs: Folder for what they print.
        root: Folder that they run in.
        anchor: The program, before its arguments.
    """

    def __init__(self, logs: Path, root: Path, anchor: tuple[str, ...] = ANCHOR) -> None:
        self._logs, self._root, self.anchor = logs, root, anchor
        self._jobs, self._lock = dict[str, Job](), Lock()
        self.asked: list[str] = []
        """Keys of the searches that were asked to stop because the page ended."""

    def get(self, key: str) -> Job | None:
        return self._jobs.get(key)

    def keys(self) -> list[str]:
        return list(self._jobs)

    def wishes(self, key: str) -> list[str]:
        """What was asked for when this page last started a campaign, and holds when it goes on."""
        command = [] if (job := self.get(key)) is None else job.command
        return [part for pair in pairwise(command) if pair[0] in WISHES for part in pair]

    def start(self, key: str, arguments: list[str]) -> Job:
        """Run `anchor` with these arguments for a campaign.

        Raises:
            AnchorError: It runs already, or too many do.
        """
        with self._lock:
            if (job := self._jobs.get(key)) and job.running:
                raise AnchorError("this search runs already", "wait for it, or stop it")
            if sum(job.running for job in self._jobs.values()) >= MOST_RUNNING:
                raise AnchorError(f"{MOST_RUNNING} searches run already", "wait for one, or stop it")
            self._logs.mkdir(parents=True, exist_ok=True, mode=0o700)
            log = self._logs / f"{key}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [*self.anchor, *arguments],
                    cwd=self._root,
                    env={**os.environ, "COLUMNS": "100"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the page's terminal is not Ctrl-C for them
                )
            self._jobs[key] = Job(process, log, command=arguments)
            return self._jobs[key]

    def stop(self, key: str) -> Job:
        """Ask a search to stop, as Ctrl-C does.

        Raises:
            InputError: It does not run, or this page has not started it.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is None or not job.running:
                raise InputError(
                    "this page runs no such search", "stop it where it was started, with Ctrl-C there"
                )
            job.asked += 1
            job.process.send_signal(signal.SIGINT)
            return job

    def stop_all(self) -> None:
        """Ask all that run to stop, because the page ends."""
        self.asked = [key for key, job in self._jobs.items() if job.running]
        for key in self.asked:
            self.stop(key)


def _tail(log: Path) -> str:
    """The end of a log."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            size = file.tell()
            file.seek(max(0, size - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= TAIL else text.partition("\n")[2]

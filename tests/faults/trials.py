"""What trials of bad days need: a fresh workspace, a command run in it, what is wrong afterwards."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import forked
import workspace

STEPS, GROUP = 3, 8
BUDGET = STEPS * GROUP
"""Structures of a campaign."""
SEARCH = [*workspace.SEARCH.split(), "-n", str(BUDGET), "--verify", "0", "--set", f"grpo.group_size={GROUP}"]
"""Without attacks by other potentials: these would have to be loaded in every trial."""
RESUME = ["resume", "run", "-n", str(BUDGET), "--finds", "2", "--verify", "0"]
STRANGERS = ("run/finds/mine.cif", "run/others/mine.cif", "run/notes.txt")
LIMIT = 180.0
"""Seconds until a command hangs; it takes five of a processor's."""


class Trials:
    """Trials in a scratch folder, against a campaign that had no bad day."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.random = place, random.Random(seed)
        self.top = place / "top"
        self.output = place / "output"
        self.kills = Counter[str]()
        """SIGKILLs by the stage in which they came."""
        began = spent()
        self.whole = self.fresh()
        self.run(SEARCH)
        self.seconds = spent() - began
        """Processor seconds of a campaign."""
        self.reference = content(self.whole / "run")
        self.finds = files(self.whole / "run")
        shutil.move(self.whole, place / "whole")

    def fresh(self, *, finished: bool = False) -> Path:
        """A folder with a stranger's files, empty or with the finished campaign."""
        shutil.rmtree(self.top, ignore_errors=True)
        folder = self.top / "work"
        folder.mkdir(parents=True)
        (self.top / "mine.txt").write_text(workspace.MINE)
        if finished:
            shutil.copytree(self.place / "whole" / "run", folder / "run")
        workspace.strangers(folder, *STRANGERS)
        return folder

    def run(self, words: list[str], before: Callable[[], object] | None = None) -> tuple[int | None, str]:
        """A command to its end: exit code and what it said."""
        child = forked.start(words, self.top / "work", self.output, before=before)
        return forked.wait(child, LIMIT), self.output.read_text(errors="replace")

    def verdict(self, *, finished: bool = True) -> str:
        """What is wrong with the campaign now, '' if nothing is."""
        harm = workspace.harmed(self.top, STRANGERS)
        if harm:
            return f"harm: {', '.join(harm)}"
        if not finished:
            return ""
        if content(self.top / "work" / "run") != self.reference:
            return "the ledger is another one"
        if files(self.top / "work" / "run") != self.finds:
            return "the results are others"
        return ""


def content(folder: Path) -> tuple[Any, ...]:
    """All that must not depend on how a campaign was run: everything but the clock."""
    from anchor.search.ledger import Ledger

    ledger = Ledger.open(folder)
    try:
        steps = [{k: v for k, v in row.items() if k != "seconds"} for row in ledger.step_rows()]
        return list(ledger.rows()), steps, ledger.state(), ledger.find_rows()
    finally:
        ledger.close()


def files(folder: Path) -> dict[str, bytes]:
    """The results that are the same each time."""
    paths = [folder / name for name in ("finds.csv", "others.csv")]
    paths += sorted(path for name in ("finds", "others") for path in (folder / name).glob("0*.cif"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.exists()}


def answered(code: int | None, said: str, *, good: tuple[int, ...] = (0,)) -> str:
    """What is wrong with an answer, '' if nothing is."""
    if code is None:
        return "hang"
    if "Traceback (most recent call last)" in said:
        return "traceback: " + " ".join(said.split())[-200:]
    return "" if code in good else f"exit code {code}: {' '.join(said.split())[-200:]}"


def has_campaign(ledger: Path) -> bool:
    from anchor.errors import AnchorError
    from anchor.search.ledger import Ledger

    try:
        Ledger.open(ledger).close()
    except AnchorError:
        return False
    return True


def spent() -> float:
    """Processor seconds of this process and all that have ended below it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def stage(folder: Path) -> str:
    """Where a campaign was when it was killed."""
    from anchor.errors import AnchorError
    from anchor.search.ledger import Ledger

    try:
        ledger = Ledger.open(folder)
    except AnchorError:
        return "before the ledger"
    steps = ledger.n_steps
    ledger.close()
    if steps < STEPS:
        return "in a step"
    return "while writing" if (folder / "finds.csv").exists() else "in the finds"

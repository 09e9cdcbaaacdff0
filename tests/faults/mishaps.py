"""Bad days that come from inside: a potential that fails, a clock that jumps."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import forked
from trials import BUDGET, LIMIT, RESUME, SEARCH, Trials, answered, content, has_campaign

LEAK = 2**30
"""Bytes of address space that a leaking potential keeps at each call; nobody touches them."""
CALLS = 18
"""Of the potential in a campaign of three steps, about."""
YEAR = 365 * 86400.0


def potential(trials: Trials) -> tuple[str, str]:
    """A potential that raises, gives NaN, hangs or leaks at a random call; then, with a good one, resumed."""
    how = trials.random.choice(("raises", "NaN", "hangs", "leaks"))
    folder = trials.fresh()
    call = trials.random.randrange(CALLS)
    child = forked.start(SEARCH, folder, trials.output, before=lambda: _spoil_potential(how, call))
    code = None
    if how == "hangs":
        for _ in range(int(LIMIT)):
            code = forked.pause(child, 1.0)
            if code is not None or "hanging" in trials.output.read_text(errors="replace"):
                break
    if how == "hangs" and code is None:
        for _ in range(2):  # as a person would: Ctrl-C, and again
            os.kill(child, signal.SIGINT)
            time.sleep(1.0)
    if code is None:
        code = forked.wait(child, LIMIT)
    said = trials.output.read_text(errors="replace")
    good = (0, 1, 130) if how == "hangs" else (0, 1)
    wrong = answered(code, said, good=good) or trials.verdict(finished=False)
    # A campaign ends where no crystal of a group could be evaluated: that is the potential's fault.
    cause = {"leaks": "memory", "raises": "failed for all", "NaN": "failed for all"}.get(how, "")
    if not wrong and code == 1 and cause not in said:
        wrong = f"unclear: {' '.join(said.split())[-200:]}"
    if not wrong and (code or how == "hangs"):  # interrupted among the finds it ends well, with some of them
        again = RESUME if has_campaign(folder / "run" / "ledger.db") else SEARCH
        wrong = answered(*trials.run(again))
    if not wrong and how == "hangs":
        wrong = trials.verdict()
    return f"potential {how}", wrong or _rows(folder / "run")


def _rows(run: Path) -> str:
    """Every candidate is there once, with a reason if it is not good; want of memory is no verdict."""
    rows = content(run)[0]
    if [row["id"] for row in rows] != list(range(BUDGET)):
        return "rows are missing or doubled"
    if any(not row["reason"] and not row["valid"] for row in rows):
        return "a failure without a reason"
    blamed = [row for row in rows if "memory" in str(row["reason"]) and row["status"] != "not scored"]
    return f"a crystal is blamed for want of memory: {blamed[0]['reason']}" if blamed else ""


def _spoil_potential(how: str, call: int) -> None:
    """Let the potential fail from its n-th call on: for three calls, or for ever if it hangs or leaks."""
    import numpy as np

    from anchor.potentials.base import Potential

    real, calls, kept = Potential.forward, iter(range(10**9)), []

    def forward(self: Potential, state: Any, **settings: Any) -> Any:
        number = next(calls)
        if how == "leaks" and number >= call:
            kept.append(np.empty(LEAK, dtype=np.uint8))
        found = real(self, state, **settings)
        if how == "leaks" or not call <= number < call + 3:
            return found
        if how == "raises":
            raise RuntimeError("the potential had enough")
        if how == "hangs":
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(10**6)
        return {key: value * float("nan") for key, value in found.items()}

    Potential.forward = forward  # type: ignore[method-assign]


def clock(trials: Trials) -> tuple[str, str]:
    """The clock jumps by years at each look; killed, files get dates to come, resumed long before them."""
    folder = trials.fresh()
    seed = trials.random.randrange(2**32)
    child = forked.start(SEARCH, folder, trials.output, before=lambda: _jumping_clock(seed, 20 * YEAR))
    done = forked.pause(child, trials.random.uniform(0.3, 1.0) * trials.seconds) is not None
    if not done:
        forked.kill(child)
    for path in folder.rglob("*"):
        os.utime(path, (dates := time.time() + 50 * YEAR, dates))
    again = RESUME if has_campaign(folder / "run" / "ledger.db") else SEARCH
    wrong = answered(*trials.run(again, before=lambda: _jumping_clock(seed, -30 * YEAR)))
    return "clock " + ("after the end" if done else "killed"), wrong or trials.verdict()


def _jumping_clock(seed: int, most: float) -> None:
    """Replace the wall clock of this process by one that is wrong by up to so many seconds."""
    import random

    chance, real = random.Random(seed), time.time

    def wrong() -> float:
        return max(0.0, real() + chance.uniform(0, 1) * most)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(wrong(), tz)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "anchor":
            for key, value in list(vars(module).items()):
                if value is real or value is datetime:
                    setattr(module, key, wrong if value is real else Jumping)
    time.time = wrong

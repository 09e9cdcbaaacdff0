"""Campaigns on bad days: killed, on a full disk, with damaged files, with a potential that fails.

    python tests/faults/campaigns.py [--minutes 10] [--seed 0] [--only kill|disk|damage|potential]

Every trial begins with a fresh copy of a workspace, does one kind of harm at a random moment or place, and
goes on. Afterwards nothing may be lost (candidates, steps, states, a stranger's files), nothing doubled, and
whatever was said has a cause and no traceback. Counts are printed; the exit code is 0 if all trials are good.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import forked
import workspace

BUDGET = 48
"""Structures of a campaign, three steps."""
SEARCH = [*workspace.SEARCH.split(), "-n", str(BUDGET)]
RESUME = ["resume", "run", "-n", str(BUDGET), "--finds", "2"]
MINE = ("run/finds/mine.cif", "run/notes.txt")
LIMIT = 180.0
"""Seconds until a command hangs; it takes five on a quiet machine."""


class Trials:
    """Trials in a scratch folder, against a campaign that had no bad day."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.random = place, random.Random(seed)
        self.top = place / "top"
        self.output = place / "output"
        began = time.monotonic()
        self.whole = self.fresh()
        self.run(SEARCH)
        self.seconds = time.monotonic() - began
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
        workspace.strangers(folder, *MINE)
        return folder

    def run(self, words: list[str], before: Callable[[], object] | None = None) -> tuple[int | None, str]:
        """A command to its end: exit code and what it said."""
        child = forked.start(words, self.top / "work", self.output, before=before)
        return forked.wait(child, LIMIT), self.output.read_text(errors="replace")

    def verdict(self, *, finished: bool = True) -> str:
        """What is wrong with the campaign now, '' if nothing is."""
        harm = workspace.harmed(self.top, MINE)
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
    paths = [folder / "finds.csv", *sorted((folder / "finds").glob("0*.cif"))]
    return {path.name: path.read_bytes() for path in paths}


def answered(code: int | None, said: str, *, good: tuple[int, ...] = (0,)) -> str:
    """What is wrong with an answer, '' if nothing is."""
    if code is None:
        return "hang"
    if "Traceback (most recent call last)" in said:
        return "traceback: " + " ".join(said.split())[-200:]
    return "" if code in good else f"exit code {code}: {' '.join(said.split())[-200:]}"


# Kills


def kill(trials: Trials) -> tuple[str, str]:
    """One to three SIGKILLs at random moments, then resumed to the end."""
    folder = trials.fresh()
    stages = []
    for _ in range(trials.random.randint(1, 3)):
        ledger = folder / "run" / "ledger.db"
        child = forked.start(RESUME if has_campaign(ledger) else SEARCH, folder, trials.output)
        time.sleep(trials.random.uniform(0.0, 1.1) * trials.seconds)
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            stages.append("too late")
            continue
        forked.kill(child)
        stages.append(stage(folder / "run"))
    ledger = folder / "run" / "ledger.db"
    wrong = answered(*trials.run(RESUME if has_campaign(ledger) else SEARCH)) or trials.verdict()
    return "kill " + ", ".join(sorted(set(stages))), wrong


def has_campaign(ledger: Path) -> bool:
    from anchor.errors import AnchorError
    from anchor.search.ledger import Ledger

    try:
        Ledger.open(ledger).close()
    except AnchorError:
        return False
    return True


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
    if steps < BUDGET // 16:
        return "in a step"
    return "while writing" if (folder / "finds.csv").exists() else "in the finds"


# Disks


def disk(trials: Trials) -> tuple[str, str]:
    """A disk that is full at a random write; more room, and resumed."""
    folder = trials.fresh()
    needed = sum(p.stat().st_size for p in (trials.place / "whole" / "run").rglob("*") if p.is_file())
    size = int(trials.random.uniform(0.005, 1.0) * needed)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        workspace.strangers(folder, *MINE)
        code, said = trials.run(SEARCH)
        wrong = answered(code, said, good=(0, 1))
        if not wrong and code == 1 and not any(word in said for word in ("full", "space", "disk")):
            wrong = f"unclear: {' '.join(said.split())[-200:]}"
        wrong = wrong or trials.verdict(finished=False)
        if not wrong and (left := workspace.empties(folder)):
            wrong = f"left behind: {left}"
        subprocess.run(["mount", "-o", f"remount,size={4 * needed + 2**24}", str(folder)], check=True)
        again = RESUME if has_campaign(folder / "run" / "ledger.db") else SEARCH
        wrong = wrong or answered(*trials.run(again)) or trials.verdict()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    return f"disk {'full' if code else 'large enough'}", wrong


# Damage

READERS = (
    ["report", "run"],
    ["sample", "run", "-n", "2"],
    ["export", "run", "--which", "valid", "--out", "x.csv"],
)


def damage(trials: Trials) -> tuple[str, str]:
    """A file that was cut off or overwritten somewhere; every command that reads it answers."""
    folder = trials.fresh(finished=True)
    what = trials.random.choice(("ledger", "manifest", "weights", "policy", "config", "reference"))
    commands = [*READERS, [*RESUME[:3], str(BUDGET + 16), *RESUME[4:]]]
    if what == "ledger":
        path = folder / "run" / "ledger.db"
    elif what == "manifest":
        path = folder / "run" / ".anchor-files.json"
    elif what == "weights":
        cache = Path(os.environ["ANCHOR_CACHE"])
        source = next(p for p in cache.rglob("*1M*") if p.is_file())
        path = folder / "cache" / source.relative_to(cache)
        path.parent.mkdir(parents=True)
        shutil.copy(source, path)
        commands = [
            ["relax", "nacl.cif", "--potential", "mattersim-1m", "--max-steps", "1", "--workers", "1"]
        ]
        (folder / "nacl.cif").write_text(workspace.nacl())
    elif what == "policy":
        path = folder / "p.safetensors"
        trials.run(["policy", "save", "run", "--out", "p.safetensors"])
        commands = [
            ["sample", "p.safetensors", "-n", "2"],
            ["policy", "save", "run", "--out", "p.safetensors"],
        ]
    elif what == "config":
        path = folder / "c.yaml"
        path.write_text("grpo:\n  group_size: 16\nrelax:\n  max_steps: 3\nrun:\n  seed: 3\n")
        commands = [["search", "--config", "c.yaml", "--print-config"]]
    else:
        from anchor.paths import BUNDLED

        path = folder / "bundled.npz"
        shutil.copy(trials.random.choice(sorted(BUNDLED.rglob("*.npz"))), path)
        _spoil(path, trials.random)
        return "damage reference", _load_arrays(path)
    _spoil(path, trials.random)
    spoilt = path.read_bytes()
    for words in commands:
        code, said = trials.run(words)
        wrong = answered(code, said, good=(0, 1, 2)) or trials.verdict(finished=False)
        if not wrong and words in READERS and what == "ledger" and path.read_bytes() != spoilt:
            wrong = "reading changed a damaged ledger"
        if wrong:
            return f"damage {what}", f"{' '.join(words)}: {wrong}"
    return f"damage {what}", ""


def _load_arrays(path: Path) -> str:
    from anchor.arrays import load_arrays
    from anchor.errors import AnchorError

    try:
        load_arrays(path)
    except AnchorError as error:
        return "" if error.hint else "no way out"
    return ""


def _spoil(path: Path, chance: random.Random) -> None:
    """Cut a file off, or overwrite a piece of it."""
    size = path.stat().st_size
    if chance.random() < 0.5:
        os.truncate(path, chance.randrange(size))
        return
    with path.open("r+b") as file:
        file.seek(chance.randrange(size))
        file.write(chance.randbytes(chance.choice((1, 16, 4096)))[: max(1, size // 2)])


# Potentials


def potential(trials: Trials) -> tuple[str, str]:
    """A potential that raises, gives NaN or hangs at a random call; then, with a good one, resumed."""
    how = trials.random.choice(("raises", "NaN", "hangs"))
    trials.fresh()
    call = trials.random.randrange(40)
    words = [*SEARCH, "--set", "run.workers=1"]
    child = forked.start(
        words, trials.top / "work", trials.output, before=lambda: _spoil_potential(how, call)
    )
    if how == "hangs":
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and "hanging" not in trials.output.read_text(errors="replace"):
            time.sleep(0.1)
        for _ in range(2):  # as a person would: Ctrl-C, and again
            os.kill(child, signal.SIGINT)
            time.sleep(1.0)
    code = forked.wait(child, LIMIT)
    said = trials.output.read_text(errors="replace")
    wrong = answered(code, said, good=(0, 1) if how == "hangs" else (0,)) or trials.verdict(finished=False)
    if not wrong and how == "hangs" and "hanging" in said:
        again = RESUME if has_campaign(trials.top / "work" / "run" / "ledger.db") else SEARCH
        wrong = answered(*trials.run(again)) or trials.verdict()
    elif not wrong:
        rows = content(trials.top / "work" / "run")[0]
        if [row["id"] for row in rows] != list(range(BUDGET)):
            wrong = "rows are missing or doubled"
        elif any(not row["reason"] and not row["valid"] for row in rows):
            wrong = "a failure without a reason"
    return f"potential {how}", wrong


def _spoil_potential(how: str, call: int) -> None:
    """Let the potential fail from its n-th call on for three calls, or for ever if it hangs."""
    from anchor.potentials.base import Potential

    real, calls = Potential.forward, iter(range(10**9))

    def forward(self: Potential, state: Any, **settings: Any) -> Any:
        number = next(calls)
        found = real(self, state, **settings)
        if not call <= number < call + 3:
            return found
        if how == "raises":
            raise RuntimeError("the potential had enough")
        if how == "hangs":
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(10**6)
        return {key: value * float("nan") for key, value in found.items()}

    Potential.forward = forward  # type: ignore[method-assign]


KINDS = {"kill": kill, "disk": disk, "damage": damage, "potential": potential}
SHARES = {"kill": 3, "disk": 1, "damage": 1, "potential": 1}
"""Trials of each kind in a round."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="Processor minutes, about.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=KINDS, help="One kind.")
    options = parser.parse_args()
    forked.warm_up()
    counts, bad = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        trials = Trials(Path(scratch), options.seed)
        kinds = [options.only] if options.only else [k for k, n in SHARES.items() for _ in range(n)]
        while _spent() < 60 * options.minutes:
            for kind in kinds:
                what, wrong = KINDS[kind](trials)
                counts[what] += 1
                if wrong:
                    bad[what] += 1
                    print(f"{what}: {wrong}", flush=True)
    for what, n in sorted(counts.items()):
        print(f"{n:4} {what}" + (f", {bad[what]} not answered well" if bad[what] else ""))
    print(f"{counts.total()} trials, {bad.total()} with a fault, {_spent() / 60:.1f} processor minutes")
    sys.exit(1 if bad else 0)


def _spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()

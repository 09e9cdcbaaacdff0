"""Campaigns on bad days: killed, on a full disk, with damaged files, with a potential or a clock that fails.

    python tests/faults/campaigns.py [--minutes 10] [--kills 200] [--seed 0] [--only kill disk damage …]

Rounds of all kinds until both the minutes and the SIGKILLs are spent. Every trial begins with a fresh copy of
a workspace, does one kind of harm at a random moment or place, and goes on. Afterwards nothing may be lost
(candidates, steps, states, a stranger's files), nothing doubled, and whatever was said has a cause and no
traceback. Counts are printed; the exit code is 0 if all trials are good.
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
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import forked
import workspace
from mishaps import clock, potential
from trials import BUDGET, GROUP, RESUME, SEARCH, Trials, answered, has_campaign, spent, stage
from trials import STRANGERS as MINE

# Kills


def kill(trials: Trials) -> tuple[str, str]:
    """One to three SIGKILLs at random moments, then resumed to the end."""
    folder = trials.fresh()
    stages = []
    for _ in range(trials.random.randint(1, 3)):
        ledger = folder / "run" / "ledger.db"
        child = forked.start(RESUME if has_campaign(ledger) else SEARCH, folder, trials.output)
        if forked.pause(child, trials.random.uniform(0.0, 1.2) * trials.seconds) is not None:
            stages.append("too late")
            continue
        forked.kill(child)
        stages.append(stage(folder / "run"))
        trials.kills[stages[-1]] += 1
    ledger = folder / "run" / "ledger.db"
    wrong = answered(*trials.run(RESUME if has_campaign(ledger) else SEARCH)) or trials.verdict()
    return "kill " + ", ".join(sorted(set(stages))), wrong


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

SCREEN = ["screen", "--elements", "Li,Mg,O,F", "--max-atoms", "8", "-n", "5"]
READERS = (
    ["report", "run"],
    ["sample", "run", "-n", "2"],
    ["export", "run", "--which", "valid", "--out", "x.csv"],
)


def damage(trials: Trials) -> tuple[str, str]:
    """A file that was cut off or overwritten somewhere; every command that reads it answers."""
    folder = trials.fresh(finished=True)
    what = trials.random.choice(("ledger", "manifest", "weights", "policy", "config", "cache", "reference"))
    commands = [*READERS, [*RESUME[:3], str(BUDGET + GROUP), *RESUME[4:]]]
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
    elif what == "cache":
        path = trials.random.choice(_cached(trials, folder))
        commands = [SCREEN]
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


def _cached(trials: Trials, folder: Path) -> list[Path]:
    """Files that a command keeps for the next time, in a cache of its own; made once, copied here."""
    made = trials.place / "screening"
    (folder / "cache").mkdir()
    if not made.is_dir():
        if wrong := answered(*trials.run(SCREEN)):
            raise RuntimeError(f"no cache was made: {wrong}")
        shutil.copytree(folder / "cache" / "screening", made)
    else:
        shutil.copytree(made, folder / "cache" / "screening")
    return sorted((folder / "cache" / "screening").iterdir())


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


KINDS = {"kill": kill, "disk": disk, "damage": damage, "potential": potential, "clock": clock}
SHARES = {"kill": 4, "disk": 1, "damage": 2, "potential": 1, "clock": 1}
"""Trials of each kind in a round."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="Processor minutes, about.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kills", type=int, default=0, help="At least so many SIGKILLs, however long it takes."
    )
    parser.add_argument("--only", choices=KINDS, nargs="+", help="Some kinds.")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cut off, it tells what it has seen
    forked.warm_up()
    counts, bad = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        trials = Trials(Path(scratch), options.seed)
        kinds = [kind for kind, n in SHARES.items() if kind in (options.only or KINDS) for _ in range(n)]
        end = spent() + 60 * options.minutes
        try:
            while spent() < end or ("kill" in kinds and trials.kills.total() < options.kills):
                for kind in kinds:
                    what, wrong = KINDS[kind](trials)
                    counts[what] += 1
                    if wrong:
                        bad[what] += 1
                        print(f"{what}: {wrong}", flush=True)
        finally:
            _tell(counts, bad, trials.kills)
    sys.exit(1 if bad else 0)


def _tell(counts: Counter[str], bad: Counter[str], kills: Counter[str]) -> None:
    for what, n in sorted(counts.items()):
        print(f"{n:4} {what}" + (f", {bad[what]} not answered well" if bad[what] else ""))
    print(f"{kills.total()} SIGKILLs: " + ", ".join(f"{n} {where}" for where, n in kills.most_common()))
    print(
        f"{counts.total()} trials, {bad.total()} with a fault, {spent() / 60:.1f} processor minutes",
        flush=True,
    )


if __name__ == "__main__":
    main()

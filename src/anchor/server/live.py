"""A campaign while it runs: counts that are brought up to date with the rows that came since."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

from anchor.config import Config
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.search.ledger import Ledger
from anchor.search.tables import candidates

LATEST = 8
"""Candidates that a snapshot shows: the last valid ones."""
SHOWN = ("id", "formula", "n_atoms", ABOVE, "novelty", "known_in")
LOCKS = Path("/proc/locks")


class Watch:
    """Counts of one campaign; each call of `snapshot` reads what is new. Threads may share it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.config = Config.from_ledger(ledger.config)
        self._tally, self._next, self._lock = Tally(self.config.evaluation), 0, Lock()

    def snapshot(self) -> dict[str, Any]:
        """Progress as plain values."""
        with self._lock:
            for row in self.ledger.rows(("id", *TALLY_COLUMNS), where=candidates.c.id >= self._next):
                self._tally.add(row)
                self._next = row["id"] + 1
            latest = self.ledger.rows(
                SHOWN, where=candidates.c.valid.is_(True), order=[candidates.c.id.desc()], limit=LATEST
            )
            return {
                "structures": self._tally.proposed,
                "budget": self.config.run.structures,
                "steps": self.ledger.n_steps,
                "counts": dict(self._tally.counts),
                "status": dict(sorted(self._tally.status.items())),
                "refined": len(self.ledger.refined()),
                "verdicts": self.ledger.n_verdicts,
                "latest": list(latest),
            }


def is_running(folder: Path) -> bool:
    """Whether a process goes on with the campaign and holds its lock; where the system does not tell: no."""
    try:
        inode = (folder / "ledger.lock").stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return False
    held = (line.split() for line in lines)
    return any("FLOCK" in words and words[-3].endswith(f":{inode}") for words in held if len(words) >= 8)


def changed(folder: Path) -> tuple[float, ...]:
    """A mark that differs once the ledger was written to."""
    marks = []
    for name in ("ledger.db", "ledger.db-wal"):
        try:
            found = (folder / name).stat()
            marks += [found.st_mtime, float(found.st_size)]
        except OSError:
            marks += [0.0, 0.0]
    return tuple(marks)

"""Energies that are known already: in the user's cache folder, and those that ship."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from anchor.dft.jobs import Job
from anchor.dft.rules import VERSION
from anchor.paths import BUNDLED, cache_dir
from anchor.weights import write_json

SHIPPED = BUNDLED / "dft" / "energies.json"
"""Energies of known phases and of the finds in the docs: hash of the job → energy and what it is of."""
SHIPPED_ABOUT = ("code", "cpu_seconds", "moment_mub")
DONE = "done"


@dataclass(frozen=True)
class Energy:
    """What came of a job.

    Attributes:
        status: "done", "not converged", "no data set", "out of memory", "out of time", "killed", "failed".
        reason: Why, where it is not done.
        energy: Of the cell, extrapolated to no smearing, eV.
        atoms: Of the cell.
        about: CPU seconds, memory, moment, code, relaxed geometry.
        source: "calculated", "cache" or "shipped".
    """

    status: str
    reason: str = ""
    energy: float | None = None
    atoms: int = 1
    about: dict[str, Any] = field(default_factory=dict)
    source: str = "calculated"

    @property
    def per_atom(self) -> float | None:
        """eV/atom."""
        return None if self.energy is None else self.energy / self.atoms

    @property
    def text(self) -> str:
        """Status and reason."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


class Store:
    """Energies by the hash of their job.

    Args:
        folder: Of the user; default: `dft` in the cache folder.
        shipped: File of energies that came with the package; None: none.
    """

    def __init__(self, folder: Path | None = None, shipped: Path | None = SHIPPED) -> None:
        self.folder = cache_dir() / "dft" / "energies" if folder is None else folder
        self._shipped = {} if shipped is None else _shipped(shipped)

    def path(self, job: Job) -> Path:
        """File of a job's result."""
        return self.folder / f"{job.hash}.json"

    def get(self, job: Job) -> Energy | None:
        """The energy of a job, if it is known; what failed is not, and is tried again."""
        found = _kept(self.path(job))
        if found is not None and found.status == DONE:
            return found
        if row := self._shipped.get(job.hash):
            about = {key: value for key, value in row.items() if key in SHIPPED_ABOUT}
            return Energy(DONE, "", row["energy_ev"], len(job.numbers), about, "shipped")
        return None

    def jobs(self) -> Iterator[Job]:
        """All that the user's folder has a result of."""
        for path in sorted(self.folder.glob("*.json")):
            yield Job.from_dict(json.loads(path.read_text(encoding="utf-8"))["job"])

    def put(self, job: Job, energy: Energy) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.path(job), {"job": job.to_dict(), "formula": job.formula, "result": asdict(energy)})


def _kept(path: Path) -> Energy | None:
    """The energy in a file; None: there is none, or the file is damaged, and it is calculated again."""
    try:
        return Energy(**{**json.loads(path.read_text(encoding="utf-8"))["result"], "source": "cache"})
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


@cache
def _shipped(path: Path) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["energies"] if path.exists() else {}


def ship(store: Store, path: Path = SHIPPED) -> int:
    """Write the energies of a user's folder into the package, beside those there; returns how many."""
    rows = dict(_shipped(path))
    for job in store.jobs():
        found = store.get(job)
        if job.version == VERSION and found is not None and found.energy is not None:
            about = {key: value for key, value in found.about.items() if key in SHIPPED_ABOUT and value}
            rows[job.hash] = {"what": job.text, "energy_ev": round(found.energy, 6), **about}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "what": "PBE energies of cells, eV, by the hash of their job (anchor.dft.jobs.Job)",
            "command": "python benchmarks/dft.py ship",
            "energies": dict(sorted(rows.items(), key=lambda item: (item[1]["what"], item[0]))),
        },
    )
    _shipped.cache_clear()
    return len(rows)

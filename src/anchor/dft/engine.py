"""Runs GPAW in a process of its own, one at a time: limits on time and memory, a status whatever happens."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anchor.dft import datasets
from anchor.dft.jobs import Job
from anchor.dft.store import Energy, Store
from anchor.errors import MissingDependencyError
from anchor.paths import alone

PYTHON = "ANCHOR_GPAW_PYTHON"
"""Environment variable: interpreter of the environment that has GPAW, if it is another one than anchor's."""
SCRIPT = Path(__file__).with_name("gpaw_process.py")
MEMORY_GB = 4.0
"""Of one calculation: cells of 20 atoms stay below 2."""
TIME_LIMIT_S = 3600.0

Progress = Callable[[str], None]


def gpaw_python() -> Path:
    """The interpreter that has GPAW.

    Raises:
        MissingDependencyError: There is none.
    """
    if given := os.environ.get(PYTHON):
        if not Path(given).is_file():
            raise MissingDependencyError(
                f"{PYTHON}={given} is no interpreter", "set it to the path of a python"
            )
        return Path(given)
    if importlib.util.find_spec("gpaw") is not None:
        return Path(sys.executable)
    raise MissingDependencyError(
        "GPAW is not installed, and these energies are not among the known ones",
        f"CC=g++ pip install gpaw, here or into an environment of its own ({PYTHON}: its python); "
        "to calculate elsewhere: anchor dft inputs",
    )


@dataclass(frozen=True)
class Calculator:
    """Energies of jobs: known ones from the store, others from GPAW.

    Attributes:
        store: Where energies are looked up and written.
        memory_gb: Limit of a process, GiB of addresses; 0: none.
        time_limit_s: Limit of a calculation, wall time.
        known_only: Never calculate: what is not known has the status "not calculated".
        on_progress: Hears a line per calculation.
    """

    store: Store = field(default_factory=Store)
    memory_gb: float = MEMORY_GB
    time_limit_s: float = TIME_LIMIT_S
    known_only: bool = False
    on_progress: Progress = lambda _: None

    def __call__(self, jobs: Sequence[Job]) -> list[Energy]:
        """Energies in the order of the jobs; each is written down as soon as it is there."""
        found = {job.hash: self.store.get(job) for job in jobs}
        missing = {job.hash: job for job in jobs if found[job.hash] is None}
        if missing and not self.known_only:
            gpaw_python()  # before the first is begun
        for i, job in enumerate(sorted(missing.values(), key=lambda job: job.cost), start=1):
            if self.known_only:
                found[job.hash] = Energy(
                    "not calculated", "not among the known energies", None, len(job.numbers)
                )
                continue
            self.on_progress(f"DFT {i}/{len(missing)}: {job.text}, about {job.cost:.0f} s of CPU time")
            found[job.hash] = energy = self.calculate(job)
            self.on_progress(f"  {energy.text}, {energy.about.get('cpu_seconds', '?')} s")
        return [one for job in jobs if (one := found[job.hash]) is not None]

    def calculate(self, job: Job) -> Energy:
        """Run one job now, whatever is known, and write down what came of it."""
        python = gpaw_python()
        refused = datasets.make(python, job.generated)
        if refused:
            reason = "; ".join(f"{symbol}: {why}" for symbol, why in refused.items())
            energy = Energy("no data set", reason, None, len(job.numbers))
        else:
            with alone(self.store.path(job).with_suffix(".lock"), f"calculating {job.formula}"):
                energy = self._run(job, python)
            self.store.path(job).with_suffix(".lock").unlink(missing_ok=True)
        self.store.put(job, energy)
        return energy

    def _run(self, job: Job, python: Path) -> Energy:
        target = self.store.path(job).with_suffix(".result")
        target.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="anchor-dft-") as scratch:
            question = Path(scratch) / "job.json"
            limits = {"memory_bytes": int(self.memory_gb * 2**30), "generated_type": datasets.TAG}
            question.write_text(json.dumps({**job.to_dict(), **limits}), encoding="utf-8")
            began = time.monotonic()
            code, said = self._wait([str(python), str(SCRIPT), str(question), str(target)], scratch)
            seconds = round(time.monotonic() - began, 1)
        n = len(job.numbers)
        if target.exists():
            found = json.loads(target.read_text(encoding="utf-8"))
            target.unlink()
            for ending in (".log", ".relaxing.json"):
                target.with_suffix(ending).unlink(missing_ok=True)
            status, reason = found.pop("status"), found.pop("reason", "")
            return Energy(status, reason, found.pop("energy_ev", None), n, {**found, "wall_seconds": seconds})
        if code is None:
            return Energy("out of time", f"more than {self.time_limit_s:.0f} s", None, n)
        if code < 0:
            return Energy("killed", f"by {signal.Signals(-code).name}", None, n)
        return Energy("failed", (said.strip().splitlines() or ["it said nothing"])[-1][:300], None, n)

    def _wait(self, command: list[str], folder: str) -> tuple[int | None, str]:
        """Return code (None: out of time) and what the process said on standard error."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "GPAW_SETUP_PATH": os.pathsep.join(
                [str(datasets.folder()), *filter(None, [os.environ.get("GPAW_SETUP_PATH")])]
            ),
        }
        environment.pop("PYTHONPATH", None)  # the process imports nothing of anchor
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            _, said = process.communicate(timeout=self.time_limit_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:  # out of time, interrupted: it must not outlive us
            if process.poll() is None:
                process.kill()
                process.communicate()
        return process.returncode, said

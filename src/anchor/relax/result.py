"""What a relaxation gives back: one row per crystal, failures included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals

Status = Literal["converged", "capped", "diverged", "failed"]
Frame = tuple[Crystals, float, float, bool]
STATUSES: tuple[Status, ...] = ("converged", "capped", "diverged", "failed")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Where one crystal was evaluated, in order: k evaluations, rejected trial steps included.

    Attributes:
        crystals: Geometries.  # k
        energy: eV.  # [k]
        max_force: Largest generalised force, eV/Å.  # [k]
        accepted: False where the step was taken back.  # [k], bool
    """

    crystals: Crystals
    energy: NDArray[np.float64]
    max_force: NDArray[np.float64]
    accepted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """How n crystals relaxed, in the order they were given.

    A step is one move, whether kept or taken back; the evaluation of the given geometry is step 0, as ASE
    counts. So `evaluations` is `steps + 1`, or 0 for a crystal that was refused before any evaluation.

    Attributes:
        crystals: Geometries at the end, whatever the status (as given, where nothing could be evaluated).
        energy: Total energies there, eV; NaN when failed.  # [n]
        status: converged; capped (step budget used up); diverged (the geometry left what a crystal can be);
            failed (could not be evaluated).  # [n] of STATUSES
        reason: Why it diverged or failed, else "".  # [n]
        steps: Moves made.  # [n], int64
        evaluations: Of the potential.  # [n], int64
        first_converged_step: First step that met fmax, −1 if none did.  # [n], int64
        max_force: Largest generalised force at the end (with a free cell: of ASE's FrechetCellFilter), eV/Å;
            NaN when unknown.  # [n]
        path_energy: Energy after each step (of the accepted geometry), eV.  # n arrays [evaluations]
        trajectories: Every evaluated geometry, when asked for.
    """

    crystals: Crystals
    energy: NDArray[np.float64]
    status: NDArray[np.str_]
    reason: list[str]
    steps: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    first_converged_step: NDArray[np.int64]
    max_force: NDArray[np.float64]
    path_energy: list[NDArray[np.float64]]
    trajectories: list[Trajectory] | None = None

    def __len__(self) -> int:
        return len(self.crystals)

    def __getitem__(self, rows: NDArray[np.int64]) -> Relaxation:
        """Some of the rows, in this order."""
        columns: dict[str, Any] = {
            name: [value[i] for i in rows.tolist()] if isinstance(value, list) else value[rows]
            for name, value in vars(self).items()
            if value is not None
        }
        return Relaxation(**columns)

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Which crystals met fmax.  # [n]"""
        return self.status == "converged"

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which crystals have an energy that means something: converged or capped.  # [n]"""
        return np.isin(self.status, ("converged", "capped"))

    @property
    def energy_per_atom(self) -> NDArray[np.float64]:
        """eV/atom, NaN when failed.  # [n]"""
        return self.energy / self.crystals.counts

    def energy_after(self, steps: int) -> NDArray[np.float64]:
        """Energies that a budget of `steps` steps would have given, eV: read off this longer run.  # [n]"""
        return np.array(
            [path[min(steps, len(path) - 1)] if len(path) else np.nan for path in self.path_energy]
        )


def join(parts: Sequence[Relaxation]) -> Relaxation:
    """The rows of several relaxations, in order."""
    if not parts:
        return Record(Crystals.empty(), trajectory=False).result()
    columns: dict[str, Any] = {}
    for name, first in vars(parts[0]).items():
        values = [getattr(part, name) for part in parts]
        if isinstance(first, Crystals):
            columns[name] = Crystals.concatenate(values)
        elif isinstance(first, list):
            columns[name] = [row for value in values for row in value]
        elif first is not None:
            columns[name] = np.concatenate(values)
    return Relaxation(**columns)


class Record:
    """Collects the rows of a `Relaxation` while crystals come and go in any order."""

    def __init__(self, crystals: Crystals, *, trajectory: bool) -> None:
        n = len(crystals)
        self.crystals = crystals
        self.n_ended = 0
        self.ended: list[Crystals] = list(crystals)
        self.energy = np.full(n, np.nan)
        self.status: list[Status] = ["failed"] * n
        self.reason = [""] * n
        self.steps = np.zeros(n, dtype=np.int64)
        self.evaluations = np.zeros(n, dtype=np.int64)
        self.first_converged_step = np.full(n, -1, dtype=np.int64)
        self.max_force = np.full(n, np.nan)
        self.path: list[list[float]] = [[] for _ in range(n)]
        self.frames: list[list[Frame]] | None = [[] for _ in range(n)] if trajectory else None

    def evaluated(self, i: int, energy: float) -> None:
        """Crystal i was evaluated once more and is now at an accepted geometry of this energy."""
        self.evaluations[i] += 1
        self.steps[i] = self.evaluations[i] - 1
        self.path[i].append(energy)

    def seen(self, i: int, crystal: Crystals, energy: float, max_force: float, accepted: bool) -> None:
        """A frame of crystal i's trajectory."""
        if self.frames is not None:
            self.frames[i].append((crystal, energy, max_force, accepted))

    def end(
        self,
        i: int,
        status: Status,
        reason: str = "",
        *,
        crystal: Crystals | None = None,
        energy: float = np.nan,
        max_force: float = np.nan,
    ) -> None:
        """Crystal i is done."""
        self.n_ended += 1
        self.status[i], self.reason[i], self.max_force[i] = status, reason, max_force
        self.energy[i] = np.nan if status == "failed" else energy
        if status == "converged":
            self.first_converged_step[i] = self.steps[i]
        if crystal is not None:
            self.ended[i] = crystal

    def result(self) -> Relaxation:
        return Relaxation(
            crystals=Crystals.concatenate(self.ended),
            energy=self.energy,
            status=np.array(self.status, dtype=np.str_),
            reason=self.reason,
            steps=self.steps,
            evaluations=self.evaluations,
            first_converged_step=self.first_converged_step,
            max_force=self.max_force,
            path_energy=[np.array(path) for path in self.path],
            trajectories=None if self.frames is None else [_trajectory(frames) for frames in self.frames],
        )


def _trajectory(frames: list[Frame]) -> Trajectory:
    return Trajectory(
        Crystals.concatenate(frame[0] for frame in frames),
        np.array([frame[1] for frame in frames]),
        np.array([frame[2] for frame in frames]),
        np.array([frame[3] for frame in frames], dtype=bool),
    )

"""One relaxation engine for all potentials: batched, in flight, with an outcome for every crystal.

    from anchor.potentials.registry import load_potential
    from anchor.relax.engine import relax

    found = relax(crystals, load_potential("mattersim-1m"), cell=True, max_steps=400, fmax=0.02)
    found.crystals, found.energy_per_atom, found.status

A working set of at most `chunk_atoms` atoms is evaluated at once; crystals that are done leave it and waiting
ones enter. Crystals share nothing but the call of the potential.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch_sim.models.interface import ModelInterface

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.relax.coordinates import Frame, geometry, largest_row, start, to_crystals
from anchor.relax.evaluator import Evaluator
from anchor.relax.fire import FireWalk
from anchor.relax.guards import UNUSABLE_EVALUATIONS, disown, escaped, refuse
from anchor.relax.one_by_one import relax_one_by_one
from anchor.relax.quasi_newton import QuasiNewtonWalk
from anchor.relax.result import Record, Relaxation, Status
from anchor.relax.walk import Walk, finite

Optimizer = Literal["quasi-newton", "fire", "ase-bfgs", "ase-fire"]
WALKS: dict[str, type[Walk]] = {"quasi-newton": QuasiNewtonWalk, "fire": FireWalk}
DENSE_ATOMS = 500
"""Atoms of a crystal up to which the quasi-Newton method is used: the (3 n)² numbers of its inverse Hessian,
several times, are 18 MB each for these; for 10,648 atoms they were 8 GB each."""
Progress = Callable[[int, int], object]


def relax(
    crystals: Crystals,
    potential: ModelInterface,
    *,
    cell: bool,
    max_steps: int | ArrayLike,
    fmax: float,
    optimizer: Optimizer = "quasi-newton",
    symmetry: bool = False,
    chunk_atoms: int = 256,
    in_flight: bool = True,
    trajectory: bool = False,
    on_progress: Progress | None = None,
    watchdog_seconds: float | None = None,
) -> Relaxation:
    """Relax crystals to the nearest minimum of a potential.

    Args:
        crystals: n crystals; they are not changed.
        potential: A `Potential`, or any torch-sim model with energies, forces and (free cell) stresses.
        cell: Relax the cells too; else positions only.
        max_steps: Step budget, one for all or one for each crystal.
        fmax: Converged when no force is larger, eV/Å. With a free cell the forces are those of ASE's
            FrechetCellFilter, which include the cell's.
        optimizer: "quasi-newton", "fire", or one crystal at a time with ASE: "ase-bfgs" (the paper's way) and
            "ase-fire". Crystals of more than `DENSE_ATOMS` atoms go by "fire" instead of "quasi-newton".
        symmetry: Keep the space group that a crystal has within 0.001 Å, and put its atoms exactly there
            first. Forces keep it in any case, but for rounding; to rely on it lets MatterSim look at one atom
            of each orbit only. ASE's optimisers do not.
        chunk_atoms: Atoms per call of the potential (a larger crystal goes alone).
        in_flight: Crystals enter as soon as others leave. False keeps to fixed chunks of consecutive
            crystals, so that a crystal's result depends on its chunk only, bit by bit.
        trajectory: Keep every evaluated geometry.
        on_progress: Called with (crystals done, n) whenever some are done.
        watchdog_seconds: Against hangs: crystals still on their way after so long end as "capped", with a
            reason. Off by default, because then reruns need not agree.

    Returns:
        One row per crystal, in order. No crystal raises an error; bad arguments do.
    """
    caps = _caps(crystals, max_steps)
    if optimizer not in get_args(Optimizer):
        raise InputError(f"unknown optimizer '{optimizer}'", nearest(optimizer, get_args(Optimizer)))
    if not fmax > 0:
        raise InputError(f"fmax={fmax} must be positive (eV/Å)")
    if chunk_atoms < 1:
        raise InputError(f"chunk_atoms={chunk_atoms} must be at least 1")
    record = Record(crystals, trajectory=trajectory)
    waiting = []
    for i, reason in enumerate(refuse(crystals, potential)):
        if reason:
            record.end(i, "failed", reason)
        else:
            waiting.append(i)
    run = _Run(crystals, record, caps, cell, fmax, symmetry, on_progress, watchdog_seconds)
    if optimizer in WALKS:
        evaluator = Evaluator(potential, chunk_atoms)
        for members, walk in by_size(crystals.counts, waiting, WALKS[optimizer]):
            for chunk in [members] if in_flight else fixed_chunks(crystals.counts, members, chunk_atoms):
                run.batched(chunk, evaluator, walk)
    elif optimizer == "ase-bfgs" or optimizer == "ase-fire":
        for i in waiting:
            relax_one_by_one(
                record, i, potential, optimizer=optimizer, cell=cell, max_steps=int(caps[i]), fmax=fmax
            )
            if on_progress is not None:
                on_progress(record.n_ended, len(crystals))
    return _disowned(record.result())


def by_size(
    counts: NDArray[np.int64], members: Sequence[int], walk: type[Walk]
) -> list[tuple[list[int], type[Walk]]]:
    """Members with their way of walking: no dense Hessian is kept for large crystals, FIRE takes them."""
    large = [i for i in members if walk is QuasiNewtonWalk and counts[i] > DENSE_ATOMS]
    small = [i for i in members if i not in set(large)]
    return [(small, walk), *([(large, FireWalk)] if large else [])]


def fixed_chunks(counts: NDArray[np.int64], members: Sequence[int], chunk_atoms: int) -> list[list[int]]:
    """Consecutive crystals in chunks of at most `chunk_atoms` atoms; at least one crystal each."""
    chunks: list[list[int]] = []
    atoms = 0
    for i in members:
        if not chunks or atoms + counts[i] > chunk_atoms:
            chunks.append([])
            atoms = 0
        chunks[-1].append(i)
        atoms += int(counts[i])
    return chunks


class _Run:
    """One call of `relax`: what stays the same from step to step."""

    def __init__(
        self,
        crystals: Crystals,
        record: Record,
        caps: NDArray[np.int64],
        cell: bool,
        fmax: float,
        symmetry: bool,
        on_progress: Progress | None,
        watchdog_seconds: float | None,
    ) -> None:
        self.crystals, self.record, self.caps = crystals, record, caps
        self.cell, self.fmax, self.symmetry, self.on_progress = cell, fmax, symmetry, on_progress
        self.first_volume = crystals.volume
        self.deadline = np.inf if watchdog_seconds is None else time.monotonic() + watchdog_seconds
        self.watchdog_seconds = watchdog_seconds

    def batched(self, members: Sequence[int], evaluator: Evaluator, kind: type[Walk]) -> None:
        """Relax the crystals `members` in one working set, the waiting ones entering as others leave."""
        size = int(self.crystals.counts[list(members)].max(initial=1))
        device = _device(evaluator.potential)
        waiting = list(members)
        begin = partial(start, cell=self.cell, size=size, device=device, symmetry=self.symmetry)
        frame, at = begin(Crystals.empty(), [])
        walk = kind.begin(frame, at, at.new_zeros(0), at)
        while waiting or len(frame.index):
            moving = len(frame.index)
            coordinates = walk.trial
            entering = self._enter(waiting, int(frame.counts.sum()), evaluator.chunk_atoms)
            if entering:
                new, at = begin(self.crystals[entering], entering)
                frame, coordinates = frame.joined(new), torch.cat([coordinates, at])

            energy, gradient, errors = evaluator(frame, coordinates)
            accepted = finite(energy, gradient)
            old, fresh = slice(0, moving), slice(moving, None)
            accepted[old] = walk.advance(frame.part(old), energy[old], gradient[old])
            if entering:
                begun = kind.begin(
                    frame.part(fresh),
                    at,
                    energy[fresh],
                    torch.nan_to_num(gradient[fresh], posinf=0, neginf=0),
                )
                # Without a first energy there is nothing to go on from: these leave at once.
                begun.unusable = torch.where(accepted[fresh], 0, UNUSABLE_EVALUATIONS)
                walk = walk.joined(begun)

            if self.record.frames is not None:
                self._film(frame, coordinates, energy, gradient, accepted)
            stay = self._sort_out(frame, walk, accepted, errors)
            if not stay.all():
                rows = torch.from_numpy(stay).to(device)
                frame, walk = frame.part(rows), walk.part(rows)
                if self.on_progress is not None:
                    self.on_progress(self.record.n_ended, len(self.crystals))

    def _enter(self, waiting: list[int], atoms: int, chunk_atoms: int) -> list[int]:
        """Take crystals from the front of the queue, in order, while the working set has room."""
        entering: list[int] = []
        while waiting:
            count = int(self.crystals.counts[waiting[0]])
            if atoms and atoms + count > chunk_atoms:
                break
            atoms += count
            entering.append(waiting.pop(0))
        return entering

    def _sort_out(
        self, frame: Frame, walk: Walk, accepted: torch.Tensor, errors: dict[int, str]
    ) -> NDArray[np.bool_]:
        """Record this evaluation of every crystal, end those that are done; which ones stay?  # [b]"""
        largest = largest_row(walk.gradient).tolist()
        energies, unusable, kept = walk.energy.tolist(), walk.unusable.tolist(), accepted.tolist()
        if frame.cell_moves:
            volumes = torch.linalg.det(geometry(frame, walk.at)[1]).abs().tolist()
        else:
            volumes = self.first_volume[frame.index.cpu().numpy()].tolist()
        late = time.monotonic() > self.deadline
        stay = np.ones(len(kept), dtype=bool)
        ended = None
        for row, i in enumerate(frame.index.tolist()):
            self.record.evaluated(i, energies[row])
            reason, status = "", cast(Status | None, None)
            if row in errors:
                status, reason = "failed", errors[row]
            elif unusable[row] >= UNUSABLE_EVALUATIONS:
                status, reason = "failed", "energy or forces are not finite"
            elif kept[row] and largest[row] < self.fmax:
                status = "converged"
            elif reason := escaped(
                volume=volumes[row],
                first_volume=float(self.first_volume[i]),
                count=int(self.crystals.counts[i]),
                max_force=largest[row],
            ):
                status = "diverged"
            elif self.record.steps[i] >= self.caps[i]:
                status = "capped"
            elif late:
                status, reason = "capped", f"stopped by the watchdog after {self.watchdog_seconds:g} s"
            if status is None:
                continue
            stay[row] = False
            ended = to_crystals(frame, walk.at) if ended is None else ended
            self.record.end(
                i, status, reason, crystal=ended[row], energy=energies[row], max_force=largest[row]
            )
        return stay

    def _film(
        self,
        frame: Frame,
        coordinates: torch.Tensor,
        energy: torch.Tensor,
        gradient: torch.Tensor,
        accepted: torch.Tensor,
    ) -> None:
        largest = largest_row(gradient)
        crystals = to_crystals(frame, coordinates)
        for row, i in enumerate(frame.index.tolist()):
            self.record.seen(i, crystals[row], float(energy[row]), float(largest[row]), bool(accepted[row]))


def _device(potential: ModelInterface) -> torch.device:
    """Where optimisers work: double precision is needed, which Apple's MPS has not."""
    return torch.device("cpu") if potential.device.type == "mps" else potential.device


def _caps(crystals: Crystals, max_steps: int | ArrayLike) -> NDArray[np.int64]:
    caps = np.asarray(max_steps)
    if caps.ndim and caps.shape != (len(crystals),):
        raise InputError(f"max_steps has shape {caps.shape} for {len(crystals)} crystals")
    if (caps < 0).any():
        raise InputError(f"max_steps={caps.min()} is negative")
    return np.broadcast_to(caps, (len(crystals),)).astype(np.int64)


def _disowned(found: Relaxation) -> Relaxation:
    """Crystals that ended well by the numbers, but with fused or lost atoms, have diverged."""
    ended = np.flatnonzero(found.ended)
    status = found.status.copy()
    for i, reason in zip(ended.tolist(), disown(found.crystals[ended]), strict=True):
        if reason:
            status[i], found.reason[i] = "diverged", reason
            found.first_converged_step[i] = -1
    return Relaxation(**{**vars(found), "status": status})

"""Relaxations on several processes: the same numbers however many there are.

Threads hardly help with crystals of ten atoms: the arrays are too small to be divided. Processes do. Crystals
are dealt into parts of about two hundred atoms, whatever the number of processes; each part is relaxed by one
of them, with its own copy of the potential.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import torch
from torch_sim.models.interface import ModelInterface

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.executors import Done, Executor, Inline, State, make_executor
from anchor.potentials.base import Evaluation, Potential
from anchor.potentials.registry import load_potential
from anchor.relax.engine import Progress, fixed_chunks, relax
from anchor.relax.result import Relaxation, join

PART_ATOMS = 256
"""Atoms that a worker relaxes together. With 96 a relaxation takes 1.2 times as long (docs/speed.md), because
fewer crystals share what a call costs; larger parts leave other workers idle."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A relaxation, the seconds it took and those spent inside the potential, summed over workers."""

    relaxation: Relaxation
    seconds: float
    inside: float


class Relaxer:
    """Relaxes crystals with one potential, here or on several processes.

    Args:
        potential: With workers one of the registry, which they load again by its name.
        workers: Processes; 1: this one; None: as many as there are cores for. Only on a CPU they are of use.
        threads: Of each worker.
        executor: Who does the work, instead of workers that end with this object. One whose tasks have GPUs
            relaxes there, wherever the potential is here.
    """

    def __init__(
        self,
        potential: Potential,
        *,
        workers: int | None = 1,
        threads: int = 1,
        executor: Executor | None = None,
    ) -> None:
        self.potential = potential
        self._on_cpu = potential.device.type == "cpu"
        self._here = Inline()
        self._executor = executor or make_executor(workers=workers, threads=threads)
        self._on_gpus = self._executor.gpus > 0
        self.state = State(load_again, copy_of(potential, gpu=self._on_gpus), here=potential)

    @property
    def executor(self) -> Executor:
        """Who does the work: others may share it."""
        return self._executor

    def _for(self, parts: Sequence[Crystals]) -> Executor:
        """Who relaxes these: workers of one kind of processor only, whatever their number."""
        return self._executor if self._on_gpus or (self._on_cpu and len(parts) > 1) else self._here

    def __call__(self, crystals: Crystals, **settings: Any) -> Timed:
        """`relax_all` of one batch."""
        return self.relax_all([crystals], **settings)[0]

    def relax_all(
        self,
        batches: Sequence[Crystals],
        *,
        chunk_atoms: int = 256,
        on_progress: Progress | None = None,
        **settings: Any,
    ) -> list[Timed]:
        """`anchor.relax.relax` of each batch, part by part; `settings` are its own.

        Nobody waits for the end of a batch before the next begins, yet each is dealt on its own: its numbers
        do not depend on what else is relaxed. `max_steps=0` gives the energies of the crystals as they are.
        """
        settings["chunk_atoms"] = chunk_atoms
        atoms = min(chunk_atoms, PART_ATOMS) if self._on_cpu and not self._on_gpus else chunk_atoms
        dealt = [deal(crystals.counts.tolist(), atoms) for crystals in batches]
        parts = [crystals[part] for crystals, hands in zip(batches, dealt, strict=True) for part in hands]
        ended: list[int] = []

        def count(_: int, one: Done[Timed]) -> None:
            if on_progress is not None and one.value is not None:
                ended.append(len(one.value.relaxation))
                on_progress(sum(ended), sum(map(len, batches)))

        task = partial(timed_relax, **settings)
        done = iter(self._for(parts).results(task, parts, state=self.state, on_result=count))
        return [_in_order(hands, [next(done) for _ in hands]) for hands in dealt]

    def evaluate(self, crystals: Crystals) -> Evaluation:
        """Energies, forces and stresses of all crystals as they are, part by part."""
        members = range(len(crystals))
        parts = [crystals[part] for part in fixed_chunks(crystals.counts, members, PART_ATOMS)]
        done = self._for(parts).results(evaluate_part, parts, state=self.state)
        none = self.potential.evaluate(Crystals.empty())
        return Evaluation(
            *(
                np.concatenate([getattr(one, name) for one in [none, *done]])
                for name in ("energy", "forces", "stress")
            )
        )


def evaluate_part(potential: Potential, crystals: Crystals) -> Evaluation:
    """One part, in this process."""
    return potential.evaluate(crystals)


def copy_of(potential: Potential, *, gpu: bool) -> tuple[str, str, str, str]:
    """Arguments of `load_again` for a copy of a potential."""
    dtype = str(potential.dtype).removeprefix("torch.")
    return potential.name, potential.checkpoint_hash, dtype, "cuda" if gpu else "cpu"


def load_again(name: str, checkpoint: str, dtype: str, device: str = "cpu") -> Potential:
    """A worker's own copy of a potential, the same to the last bit."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # as the executor has decided
    potential = load_potential(name, dtype=dtype, device=device)
    if potential.checkpoint_hash != checkpoint:
        raise AnchorError(f"{name}: other weights here than in the process that asks")
    return potential


def deal(counts: Sequence[int], atoms: int) -> list[list[int]]:
    """Members in parts of about equal size, as few as keep to `atoms` on average; each in ascending order.

    The largest ones are dealt first, always to the part with the fewest atoms.
    """
    parts: list[list[int]] = [[] for _ in range(-(-sum(counts) // atoms))]
    loads = [(0, k) for k in range(len(parts))]
    heapify(loads)
    for i in sorted(range(len(counts)), key=lambda i: -counts[i]):
        load, k = heappop(loads)
        parts[k].append(i)
        heappush(loads, (load + counts[i], k))
    return [sorted(part) for part in parts if part]


def _in_order(hands: Sequence[Sequence[int]], done: Sequence[Timed]) -> Timed:
    """The parts of a batch as one, its rows as they were before they were dealt."""
    order = np.argsort(np.concatenate([*hands, []]), kind="stable").astype(np.int64)
    return Timed(
        join([one.relaxation for one in done])[order],
        sum(one.seconds for one in done),
        sum(one.inside for one in done),
    )


def timed_relax(potential: ModelInterface, crystals: Crystals, **settings: Any) -> Timed:
    """One part, in this process."""
    began = time.perf_counter()
    with _inside(potential) as inside:
        found = relax(crystals, potential, **settings)
    return Timed(found, time.perf_counter() - began, sum(inside))


@contextmanager
def _inside(potential: ModelInterface) -> Iterator[list[float]]:
    """Seconds of each call of the potential within the block."""
    seconds: list[float] = []
    began = 0.0

    def before(*_: object) -> None:
        nonlocal began
        began = time.perf_counter()

    def after(*_: object) -> None:
        seconds.append(time.perf_counter() - began)

    hooks = [potential.register_forward_pre_hook(before), potential.register_forward_hook(after)]
    try:
        yield seconds
    finally:
        for hook in hooks:
            hook.remove()

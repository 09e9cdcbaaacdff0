"""Relaxations on several processes: the same numbers however many there are.

Threads hardly help with crystals of ten atoms: the arrays are too small to be divided. Processes do. Crystals
are dealt into parts of about a hundred atoms, whatever the number of processes; each part is relaxed by one
of them, with its own copy of the potential. A worker (`anchor.relax.worker`) is a plain Python process that
takes parts from its standard input. It ends when that is closed, hence also when whoever started it is
killed, and it leaves signals to that one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from queue import SimpleQueue
from typing import Any

import numpy as np
from torch_sim.models.interface import ModelInterface

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.potentials.base import Potential
from anchor.relax.engine import Progress, relax
from anchor.relax.messages import from_crystals, note, noted, receive, send, to_relaxation
from anchor.relax.result import Relaxation, join

PART_ATOMS = 96
"""Atoms that a worker relaxes together. Larger batches gain less than 5 % on a CPU, and leave others idle."""


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
        workers: Processes; 1: this one. Only on a CPU more than one is of use.
        threads: Of each worker.

    Workers are started by the first call that needs them, and end with this object.
    """

    def __init__(self, potential: Potential, *, workers: int = 1, threads: int = 1) -> None:
        self.potential, self.threads = potential, threads
        self.workers = workers if potential.device.type == "cpu" else 1
        self._idle: SimpleQueue[subprocess.Popen[bytes]] | None = None

    def __call__(
        self,
        crystals: Crystals,
        *,
        chunk_atoms: int = 256,
        on_progress: Progress | None = None,
        **settings: Any,
    ) -> Timed:
        """`anchor.relax.relax`, part by part; `settings` are its own, as far as JSON knows them."""
        settings["chunk_atoms"] = chunk_atoms
        on_cpu = self.potential.device.type == "cpu"
        parts = deal(crystals.counts.tolist(), min(chunk_atoms, PART_ATOMS) if on_cpu else chunk_atoms)
        done: list[Timed] = []
        for one in self._each([crystals[part] for part in parts], settings):
            done.append(one)
            if on_progress is not None:
                on_progress(sum(len(one.relaxation) for one in done), len(crystals))
        order = np.argsort(np.concatenate([*parts, []]), kind="stable").astype(np.int64)
        return Timed(
            join([one.relaxation for one in done])[order],
            sum(one.seconds for one in done),
            sum(one.inside for one in done),
        )

    def relax_all(self, batches: Sequence[Crystals], **settings: Any) -> list[Timed]:
        """Several batches in one call, each dealt on its own: numbers do not depend on the others."""
        return [self(batch, **settings) for batch in batches]

    def _each(self, parts: list[Crystals], settings: dict[str, Any]) -> Iterator[Timed]:
        """Parts as they are done, in order."""
        if self.workers == 1 or len(parts) < 2:
            yield from (timed_relax(part, self.potential, **settings) for part in parts)
            return
        self._start()
        with ThreadPoolExecutor(self.workers) as threads:  # one waits for each worker
            yield from threads.map(lambda part: self._ask(part, settings), parts)

    def _start(self) -> None:
        if self._idle is not None:
            return
        self._idle = SimpleQueue()
        beginning = note(
            {
                "potential": self.potential.name,
                "checkpoint": self.potential.checkpoint_hash,
                "dtype": str(self.potential.dtype).removeprefix("torch."),
                "threads": self.threads,
            }
        )
        paths = os.pathsep.join(path for path in sys.path if path)
        for _ in range(self.workers):
            worker = subprocess.Popen(
                [sys.executable, "-m", "anchor.relax.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONPATH": paths},
            )
            weakref.finalize(self, _end, worker)
            assert worker.stdin is not None
            send(worker.stdin, {"beginning": beginning})
            self._idle.put(worker)

    def _ask(self, crystals: Crystals, settings: dict[str, Any]) -> Timed:
        """Let the next idle worker relax a part."""
        assert self._idle is not None
        worker = self._idle.get()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            send(worker.stdin, {**from_crystals(crystals), "settings": note(settings)})
            answer = receive(worker.stdout)
        except (EOFError, BrokenPipeError) as error:
            raise AnchorError(
                f"a process that relaxes crystals ended unexpectedly (exit code {worker.wait(timeout=10)})",
                "its own message is above; out of memory? use fewer of them (run.workers=1) and resume",
            ) from error
        finally:
            self._idle.put(worker)
        if "error" in answer:
            raise AnchorError(f"a process that relaxes crystals failed: {noted(answer['error'])}")
        return Timed(to_relaxation(answer), *answer["seconds"].tolist())


def cores() -> int:
    """Cores that this process may use: a batch system often gives fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def timed_relax(crystals: Crystals, potential: ModelInterface, **settings: Any) -> Timed:
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


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            stream.close()

"""Worker processes of this machine: kept as long as their executor, killed when they hang.

A worker (`anchor.executors.worker`) is a plain Python process, started when first needed: neither a fork,
which would copy torch's threads in any state, nor one that runs the main script once more. It ends with its
executor and with the process that started it, also when that is killed, and leaves signals to that one.

Both sides send each other pickles, as multiprocessing does: a pipe without a name between a process and its
own child carries nothing that anybody else wrote. Pickles from files or other machines are never read.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from anchor.errors import AnchorError
from anchor.executors.base import Call, Done, Executor, R, State, environment, pickled, workers_for

_WAY_OUT = (
    "its own message is above; out of memory? use fewer of them (workers=1, or run.workers=1) and resume"
)


class Processes(Executor):
    """A few processes; one that was killed or died is replaced when there is more to do.

    Args:
        workers: How many, at most; None: as many as there are cores for.
        threads: Of the numerical libraries in each.
        seconds: Limit for each item, from when its process begins with it, unless a call says otherwise.
    """

    def __init__(self, *, workers: int | None = None, threads: int = 1, seconds: float | None = None) -> None:
        self.workers, self.threads, self.seconds = workers or workers_for(threads), threads, seconds
        self._idle: list[_Worker] = []

    def each(
        self,
        function: Call[R],
        items: Sequence[Any],
        *,
        state: State | None = None,
        seconds: float | None = None,
    ) -> Generator[tuple[int, Done[R]], None, None]:
        limit = next((given for given in (seconds, self.seconds) if given is not None), inf)
        waiting = deque(enumerate(items))
        busy: dict[Connection, _Worker] = {}
        done: list[tuple[int, Done[R]]] = []
        try:
            while waiting or busy or done:
                while waiting and len(busy) < self.workers:
                    i, item = waiting.popleft()
                    task = pickled(function, item, state)
                    worker = self._take()
                    busy[worker.pipe] = worker
                    worker.begin(i, task)
                yield from done  # after the workers have their next items: the listener may take its time
                done = []
                for worker in _ready(busy):
                    try:
                        outcome = worker.hear(limit)
                    except _LostError:  # it died while it was idle: another does the item
                        busy.pop(worker.pipe)
                        waiting.appendleft((worker.item, items[worker.item]))
                        continue
                    if outcome is not None:
                        self.cpu_elsewhere += outcome.cpu_seconds
                        done.append((worker.item, outcome))
                        self._idle.append(busy.pop(worker.pipe))
        finally:  # what still works has no one left to report to
            for worker in busy.values():
                worker.kill()

    def _take(self) -> _Worker:
        """A process that waits for work, or a new one."""
        while self._idle:
            if (worker := self._idle.pop()).process.poll() is None:
                return worker
        return _Worker(self.threads)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()


class _LostError(Exception):
    """A process that had worked before was gone when the next task came."""


class _Worker:
    """One process, the pipe to it, and the item it works on. It ends with this object."""

    def __init__(self, threads: int) -> None:
        self.pipe, far_end = Pipe()
        with _signals_blocked():
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "anchor.executors.worker", str(far_end.fileno())],
                pass_fds=[far_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a package prints is for people, not for pipes that others read
                env={**os.environ, **environment(threads)},
            )
        far_end.close()  # so that the process's death is the end of the pipe
        self.kill = weakref.finalize(self, _end, self.process, self.pipe)
        self.item, self.deadline, self.started, self.worked = -1, inf, False, False

    def begin(self, item: int, task: bytes) -> None:
        self.item, self.deadline, self.started = item, inf, False
        with suppress(BrokenPipeError, ConnectionResetError):  # it died: `hear` finds the same and says so
            self.pipe.send_bytes(task)

    def hear(self, seconds: float) -> Done[Any] | None:
        """One message, if it is in time: the clock starts, or the outcome."""
        if not self.pipe.poll():
            if time.monotonic() < self.deadline:
                return None
            self.kill()
            fault = f"killed after {seconds:g} s"
            return Done(fault=fault, error=AnchorError(f"a worker process was {fault}"))
        try:
            kind, outcome = pickle.loads(self.pipe.recv_bytes())  # noqa: S301  # of our own child
        except (EOFError, ConnectionResetError):
            code = self.process.wait()
            if not self.started and self.worked:
                raise _LostError from None
            if not self.started:
                raise AnchorError(
                    f"a worker process ended with code {code} before its task began", _WAY_OUT
                ) from None
            error = AnchorError(f"a worker process ended unexpectedly (exit code {code})", _WAY_OUT)
            return Done(fault=f"process died with code {code}", error=error)
        if kind == "broken":
            raise outcome.error
        if kind == "started":
            self.started, self.worked, self.deadline = True, True, time.monotonic() + seconds
        return outcome


def _ready(busy: dict[Connection, _Worker]) -> list[_Worker]:
    """Who has something to say, or no time left; waits until there is one."""
    if not busy:
        return []
    deadline = min(worker.deadline for worker in busy.values())
    heard = wait(list(busy), None if deadline == inf else max(0.0, deadline - time.monotonic()))
    now = time.monotonic()
    return [worker for pipe, worker in busy.items() if pipe in heard or worker.deadline <= now]


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process started meanwhile never hears of Ctrl-C and SIGTERM: they are for its parent to act on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    process.kill()
    process.wait()
    pipe.close()

"""Worker processes that can be killed, for code of others that may never return.

    with KillablePool(seconds=300) as pool:
        outcomes = pool.map(function, items)  # [Outcome(value=..., fault=""), ...]

The time limit is a watchdog against hangs, not a budget: for reruns to agree, bound the work itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Self, TypeVar

from anchor.errors import AnchorError

T = TypeVar("T")
R = TypeVar("R")

_STARTED = "started"


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of one item.

    Attributes:
        value: The function's result, None if there is none.
        fault: Why there is none: killed, the process died, or the exception; '' if all went well.
    """

    value: R | None = None
    fault: str = ""


@dataclass
class KillablePool:
    """A few spawned processes, started when first needed, kept, and replaced when one was killed or died.

    Attributes:
        workers: Processes at most.
        seconds: Wall-clock limit per item, from the moment its process begins to work on it.
    """

    workers: int = field(default_factory=lambda: min(2, os.cpu_count() or 1))
    seconds: float = 300.0
    _idle: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[Outcome[R]]:
        """Apply an importable function to every item; results in order, never an exception of the function.

        Raises:
            AnchorError: A process could not start or could not read its task.
        """
        outcomes: dict[int, Outcome[R]] = {}
        waiting = deque(enumerate(items))
        busy: dict[Connection, _Worker] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    worker = self._take()
                    busy[worker.pipe] = worker
                    worker.begin(function, *waiting.popleft())
                next_deadline = min(worker.deadline for worker in busy.values())
                timeout = None if next_deadline == inf else max(0.0, next_deadline - time.monotonic())
                ready = set(wait(list(busy), timeout))
                for pipe, worker in list(busy.items()):
                    outcome = worker.hear(self.seconds) if pipe in ready else worker.check_time(self.seconds)
                    if outcome is not None:
                        outcomes[worker.item] = outcome
                        del busy[pipe]
                        self._idle.append(worker)
        finally:  # interrupted in the middle: what still works has no one left to report to
            for worker in busy.values():
                worker.kill()
        return [outcomes[i] for i in range(len(items))]

    def _take(self) -> _Worker:
        """A process that waits for work, or a new one."""
        while self._idle:
            if (worker := self._idle.pop()).process.is_alive():
                return worker
        return _Worker()

    def close(self) -> None:
        """End the processes; the next `map` would start new ones."""
        while self._idle:
            self._idle.pop().kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class _Worker:
    """One process, the pipe to it, and the item it works on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in any state
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(far_end,), daemon=True)
        self.process.start()
        far_end.close()  # so that the process's death is the end of the pipe
        self.item = -1
        self.deadline = inf

    def begin(self, function: Callable[[Any], Any], item: int, argument: object) -> None:
        self.item, self.deadline = item, inf
        with suppress(BrokenPipeError):  # died before it could listen: `hear` finds the same and says so
            self.pipe.send((function, argument))

    def hear(self, seconds: float) -> Outcome[Any] | None:
        """Read one message: the clock starts, or the outcome."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            if self.deadline == inf:
                raise AnchorError(
                    f"a worker process ended with code {self.process.exitcode} before its task began",
                    "in a script, put what runs under: if __name__ == '__main__':",
                ) from None
            return Outcome(fault=f"process died with code {self.process.exitcode}")
        if message == _STARTED:
            self.deadline = time.monotonic() + seconds
            return None
        return message

    def check_time(self, seconds: float) -> Outcome[Any] | None:
        """Kill the process when its time is over."""
        if time.monotonic() < self.deadline:
            return None
        self.kill()
        return Outcome(fault=f"killed after {seconds:g} s")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """Work until the other side is gone. Ctrl-C is for the parent, which finishes its step first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # the parent's filters are not known here, and no one reads these
    with suppress(EOFError, BrokenPipeError):  # the parent is gone
        while True:
            function, argument = pipe.recv()  # imports what the function needs: not on the clock
            pipe.send(_STARTED)
            try:
                outcome = Outcome(value=function(argument))
            except Exception as error:  # the border of the process: reported, never swallowed
                outcome = Outcome(fault=f"{type(error).__name__}: {error}")
            pipe.send(outcome)

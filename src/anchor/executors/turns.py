"""Several threads with one executor: one computes here at a time, the others wait for their workers.

    turns = Turns(executor)
    with turns.mine():        # in each thread
        ...                   # what uses `turns` as its executor gives the turn away while it waits

So what a thread computes here needs no locks, whatever it uses, and gives what it gives alone.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

from anchor.executors.base import Call, Done, Executor, R, State


class AbandonedError(Exception):
    """Nobody wants the answer any more."""


class Turns(Executor):
    """Another executor, shared by threads.

    Attributes:
        inner: Who does the work. One that is not `shared` serves one call after the other.
        abandoned: Threads that wait for their workers give up with an AbandonedError at the next answer.
    """

    def __init__(self, inner: Executor) -> None:
        self.inner, self.gpus, self.abandoned = inner, inner.gpus, False
        self._turn, self._alone, self._thread = threading.Lock(), threading.Lock(), threading.local()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """This thread's turn, except while its workers work."""
        with self._turn:
            self._thread.has_turn = True
            try:
                yield
            finally:
                self._thread.has_turn = False

    @contextmanager
    def _given_away(self) -> Iterator[None]:
        if not getattr(self._thread, "has_turn", False):  # a thread that never asked for one
            yield
            return
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()

    def each(
        self,
        function: Call[R],
        items: Sequence[Any],
        *,
        state: State | None = None,
        seconds: float | None = None,
    ) -> Generator[tuple[int, Done[R]], None, None]:
        alone = nullcontext() if self.inner.shared else self._alone
        with self._given_away():
            alone.__enter__()
        try:
            with closing(self.inner.each(function, items, state=state, seconds=seconds)) as working:
                while True:
                    with self._given_away():
                        found = next(working, None)
                    if found is None:
                        return
                    if self.abandoned:
                        raise AbandonedError
                    self.cpu_elsewhere += found[1].cpu_seconds
                    yield found
        finally:
            alone.__exit__(None, None, None)

    def close(self) -> None:
        self.inner.close()

"""What an executor is: it applies one function to many items, and says what became of each.

Functions and states are importable and the rest is plain data, tasks know nothing of one another, and whoever
is free does the next. So answers depend neither on how many workers there are nor on which did what, and a
task that was lost may be done again by another.
"""

from __future__ import annotations

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from anchor.errors import InputError

R = TypeVar("R")
Call = Callable[..., R]
"""`function(item)`, or `function(state, item)` where there is a state."""
IMPORTABLE = "functions must stand in a module that can be imported, and items must be plain data"


@dataclass(frozen=True)
class Done(Generic[R]):
    """What became of one item.

    Attributes:
        value: The function's result, None if there is none.
        fault: Why there is none: killed, the process died, or the exception; '' if all went well.
        error: The same to be raised.
        cpu_seconds: That another process spent on it; 0 of this one.
    """

    value: R | None = None
    fault: str = ""
    error: Exception | None = field(default=None, repr=False, compare=False)
    cpu_seconds: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True)
class State:
    """What each worker makes once, `make(*arguments)`, and keeps for later calls: a potential, for instance.

    Attributes:
        make: Importable.
        arguments: Plain data.
        here: The same, if this process has made it already; it is not sent to others.
    """

    make: Callable[..., Any]
    arguments: tuple[Hashable, ...] = ()
    here: Any = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return State, (self.make, self.arguments)

    def value(self, made: dict[State, Any]) -> Any:
        """Of this process, from what it has made so far."""
        if self.here is not None:
            return self.here
        if self not in made:
            made[self] = self.make(*self.arguments)
        return made[self]


Listener = Callable[[int, Done[R]], None]


class Executor(ABC):
    """Applies functions to items. A new kind is a new file with two methods.

    `seconds` limits each item. It is a watchdog against hangs, not a budget: for reruns to agree, bound the
    work itself.

    Attributes:
        cpu_elsewhere: CPU seconds that other processes have spent on finished items so far.
        gpus: Share of a GPU that each item has where it is done; 0: items are for CPUs.
        shared: Several threads may use it at the same time.
    """

    cpu_elsewhere: float = 0.0
    gpus: float = 0.0
    shared: bool = False

    @abstractmethod
    def each(
        self,
        function: Call[R],
        items: Sequence[Any],
        *,
        state: State | None = None,
        seconds: float | None = None,
    ) -> Generator[tuple[int, Done[R]], None, None]:
        """Positions and outcomes as they come, in any order. Whoever stops listening stops the work.

        Raises:
            AnchorError: A worker could not start, read its task or make its state.
        """

    def map(
        self, function: Call[R], items: Sequence[Any], *, on_result: Listener[R] | None = None, **how: Any
    ) -> list[Done[R]]:
        """All outcomes in order, no exception of the function; `on_result` hears of each as it comes.

        `how`: state and seconds, as for `each`.
        """
        outcomes: dict[int, Done[R]] = {}
        with closing(self.each(function, items, **how)) as working:
            for i, outcome in working:
                outcomes[i] = outcome
                if on_result is not None:
                    on_result(i, outcome)
        return [outcomes[i] for i in range(len(items))]

    def results(
        self, function: Call[R], items: Sequence[Any], *, on_result: Listener[R] | None = None, **how: Any
    ) -> list[R]:
        """As `map`, values only: an item without one raises its error, and the rest is given up.

        From another process that is an AnchorError which names the cause.
        """

        def hear(i: int, outcome: Done[R]) -> None:
            if outcome.error is not None:
                raise outcome.error
            if on_result is not None:
                on_result(i, outcome)

        return [cast(R, outcome.value) for outcome in self.map(function, items, on_result=hear, **how)]

    @abstractmethod
    def close(self) -> None:
        """End the workers; the next call would start new ones."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def cores() -> int:
    """Cores that this process may use: a batch system often gives fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(threads: int) -> int:
    """Workers with so many threads each that there are cores for."""
    return max(1, cores() // threads)


def environment(threads: int) -> dict[str, str]:
    """Variables of a worker process: its threads, and where this process finds its modules."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return {**counts, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


def pickled(function: Call[Any], item: object, state: State | None) -> bytes:
    """A task as bytes.

    Plain pickles, not what torch or Ray make of them: nobody else's memory is shared, and arrays that arrive
    may be written to.
    """
    try:
        return pickle.dumps((function, item, state), pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"this cannot be sent to another process: {error}", IMPORTABLE) from error

"""All work in this process, one item after the other.

No limit in seconds is kept: code that hangs in a C library can only be killed together with its process.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from anchor.executors.base import Call, Done, Executor, R, State


class Inline(Executor):
    """This process; its threads are left as they are, and what it made for a state ends with this object."""

    def __init__(self) -> None:
        self._made: dict[State, Any] = {}

    def each(
        self,
        function: Call[R],
        items: Sequence[Any],
        *,
        state: State | None = None,
        seconds: float | None = None,  # noqa: ARG002
    ) -> Generator[tuple[int, Done[R]], None, None]:
        given = () if state is None else (state.value(self._made),)
        for i, item in enumerate(items):
            try:
                outcome = Done(function(*given, item))
            except Exception as error:  # an outcome like any other; who asked for results raises it
                outcome = Done(fault=f"{type(error).__name__}: {error}", error=error)
            yield i, outcome

    def close(self) -> None:
        self._made.clear()

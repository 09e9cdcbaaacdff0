"""Where the time goes: seconds by part."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Clock(dict[str, float]):
    """Seconds spent, by the name of the part.

    >>> clock = Clock()
    >>> with clock.part("hull"):
    ...     pass
    >>> list(clock)
    ['hull']
    """

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the wall time of the block to `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add({name: time.perf_counter() - began})

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add those of somebody else."""
        for name, spent in seconds.items():
            self[name] = self.get(name, 0.0) + spent

"""Which positions can still be filled to the exact atom counts: so that no choice leads to a dead end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from anchor.models.wyckoff.tables import N_GROUPS, tables

Multiset = tuple[tuple[int, int], ...]
"""(multiplicity, how many such points are free), ascending."""


def feasible_groups(counts: Iterable[int]) -> NDArray[np.bool_]:
    """Which space groups can hold so many atoms of each element in a primitive cell.  # [230]"""
    return _feasible_groups(tuple(sorted(counts)))


@lru_cache(maxsize=10_000)
def _feasible_groups(counts: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.array([can_finish(group, (), counts) for group in range(1, N_GROUPS + 1)])


def can_finish(group: int, taken: Iterable[int], left: Iterable[int]) -> bool:
    """Whether all remaining atoms find positions.

    Args:
        group: Space group number.
        taken: Positions of freedom 0 that are occupied, numbered within the group.
        left: Atoms of each element still to place.
    """
    points, open_ended = _available(group, frozenset(taken))
    return _can_fill(points, open_ended, tuple(sorted(n for n in left if n)))


@lru_cache(maxsize=100_000)
def _available(group: int, taken: frozenset[int]) -> tuple[Multiset, tuple[int, ...]]:
    """Free points by multiplicity, and multiplicities of the positions that can be filled again and again."""
    known = tables()
    rows = slice(known.first[group - 1], known.first[group])
    points: dict[int, int] = {}
    open_ended = set()
    pairs = zip(known.multiplicity[rows].tolist(), known.freedom[rows].tolist(), strict=True)
    for i, (multiplicity, freedom) in enumerate(pairs):
        if freedom:
            open_ended.add(multiplicity)
        elif i not in taken:
            points[multiplicity] = points.get(multiplicity, 0) + 1
    return tuple(sorted(points.items())), tuple(sorted(open_ended))


@lru_cache(maxsize=500_000)
def _can_fill(points: Multiset, open_ended: tuple[int, ...], left: tuple[int, ...]) -> bool:
    if not left:
        return True
    first, rest = left[0], left[1:]
    for used in _ways(points, open_ended, first):
        after = tuple((m, n - used.get(m, 0)) for m, n in points if n - used.get(m, 0))
        if _can_fill(after, open_ended, rest):
            return True
    return False


@lru_cache(maxsize=100_000)
def _ways(points: Multiset, open_ended: tuple[int, ...], atoms: int) -> tuple[dict[int, int], ...]:
    """How many points of each multiplicity to use so that open-ended positions hold the rest; few first."""
    if not points:
        return ({},) if _divides(open_ended, atoms) else ()
    (multiplicity, available), rest = points[0], points[1:]
    found = [
        {**way, multiplicity: n} if n else way
        for n in range(min(available, atoms // multiplicity) + 1)
        for way in _ways(rest, open_ended, atoms - n * multiplicity)
    ]
    return tuple(sorted(found, key=lambda way: sum(way.values())))


@lru_cache(maxsize=10_000)
def _divides(parts: tuple[int, ...], total: int) -> bool:
    """Whether `total` is a sum of the parts, each as often as needed."""
    reachable = {0}
    for n in range(1, total + 1):
        if any(n - part in reachable for part in parts):
            reachable.add(n)
    return total in reachable

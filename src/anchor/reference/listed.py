"""Formulas that ICSD, COD and an older Materials Project list: as hashes, with sources and space groups."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.formula import parse_amounts, reduced_formula
from anchor.errors import InputError

LISTS = ("icsd", "cod", "mp-old")
"""Bit i of a formula's sources is set when the i-th of these lists it."""
_FRACTIONAL = re.compile(r"\d\.\d")


def formula_hash(formula: str) -> int:
    """The first eight bytes of SHA-256."""
    return int.from_bytes(hashlib.sha256(formula.encode()).digest()[:8], "big")


class Listed:
    """Which lists hold a reduced formula, and in which space groups.

    Args:
        arrays: Of `listed_arrays`.
    """

    def __init__(self, arrays: Mapping[str, NDArray]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["hashes"])

    @cached_property
    def _row(self) -> dict[int, int]:
        return {key: row for row, key in enumerate(self._arrays["hashes"].tolist())}

    @cached_property
    def _ends(self) -> list[int]:
        return np.cumsum(self._arrays["group_counts"], dtype=np.int64).tolist()

    def sources(self, formula: str) -> set[str]:
        """Which of `LISTS` hold this reduced formula."""
        row = self._row.get(formula_hash(formula))
        bits = 0 if row is None else int(self._arrays["sources"][row])
        return {name for i, name in enumerate(LISTS) if bits >> i & 1}

    def space_groups(self, formula: str) -> frozenset[int]:
        """International numbers of the space groups in which ICSD or COD list it; empty where they do not."""
        row = self._row.get(formula_hash(formula))
        if row is None:
            return frozenset()
        end = self._ends[row]
        return frozenset(self._arrays["groups"][end - int(self._arrays["group_counts"][row]) : end].tolist())


def listed_arrays(
    entries: Mapping[str, Iterable[tuple[str, int]]], old: Iterable[str]
) -> tuple[dict[str, NDArray], dict[str, int]]:
    """Arrays of the lists, sorted by hash, and how many reduced formulas each holds.

    Formulas with fractional amounts (disorder) or isotopes are left out: no search proposes them.

    Args:
        entries: Formula as written and space group of every entry of "icsd" and "cod".
        old: Formulas of "mp-old".
    """
    reduced: dict[str, str | None] = {}
    sources: dict[str, int] = {}
    groups: dict[str, set[int]] = {}
    everything = {**entries, "mp-old": ((formula, 0) for formula in old)}
    for i, name in enumerate(LISTS):
        for written, group in everything[name]:
            if written not in reduced:
                reduced[written] = _reduced(written)
            if (formula := reduced[written]) is not None:
                sources[formula] = sources.get(formula, 0) | 1 << i
                groups.setdefault(formula, set()).update({group} - {0})
    by_hash = sorted((formula_hash(formula), formula) for formula in sources)
    arrays: dict[str, NDArray] = {
        "hashes": np.array([key for key, _ in by_hash], dtype=np.uint64),
        "sources": np.array([sources[f] for _, f in by_hash], dtype=np.uint8),
        "group_counts": np.array([len(groups[f]) for _, f in by_hash], dtype=np.uint8),
        "groups": np.array([g for _, f in by_hash for g in sorted(groups[f])], dtype=np.uint8),
    }
    return arrays, {name: sum(bits >> i & 1 for bits in sources.values()) for i, name in enumerate(LISTS)}


def _reduced(written: str) -> str | None:
    if _FRACTIONAL.search(written):
        return None
    try:
        amounts = parse_amounts(written)
    except InputError:  # deuterium and the like
        return None
    return reduced_formula(list(amounts), list(amounts.values()))

"""The table of outcomes: typed columns, one batch of crystals, and which rows have one.

    table = Outcomes.of(crystals).with_columns(valid=[True, False, None])
    table["valid"]            # [n], masked where missing
    table.flags("valid")      # [n] bool, missing is False
    list(table.rows())        # plain values for SQL, JSON and CSV; None where missing

A table is never changed: every step of a candidate's way gives a new one with more columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.outcomes.columns import Kind, column

Values = np.ma.MaskedArray[Any, Any]
DTYPES: dict[Kind, type] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "text": object}


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of n candidates or structures, one row each, nothing left out.

    Attributes:
        n: Rows.
        crystals: Of the rows that have one.  # m
        at: Their rows, ascending.  # [m]
        columns: Values by the name of their column (`anchor.outcomes.columns`), masked where missing.  # [n]
    """

    n: int
    crystals: Crystals
    at: NDArray[np.int64]
    columns: Mapping[str, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.crystals) != len(self.at):
            raise AnchorError(f"{len(self.crystals)} crystals for {len(self.at)} rows")
        for name, values in self.columns.items():
            if values.shape != (self.n,):
                raise AnchorError(f"column '{name}' has shape {values.shape} in a table of {self.n} rows")

    @classmethod
    def of(cls, crystals: Crystals) -> Outcomes:
        """A row for every crystal."""
        return cls(len(crystals), crystals, np.arange(len(crystals)))

    @classmethod
    def blank(cls, n: int) -> Outcomes:
        """n rows without crystals."""
        return cls(n, Crystals.empty(), np.zeros(0, dtype=np.int64))

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Outcomes:
        """From rows of plain values, as `rows` gives them; without crystals."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls.blank(len(rows)).with_columns(**{name: [row.get(name) for row in rows] for name in names})

    # Columns

    def __getitem__(self, name: str) -> Values:
        """All values of a column, masked where missing; a declared column that is not here is all missing."""
        if name not in self.columns:
            return _typed(name, [None] * self.n)
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return self.n

    def flags(self, name: str) -> NDArray[np.bool_]:
        """A column of yes and no; missing is no.  # [n]"""
        return np.asarray(self[name].filled(False), dtype=bool)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers; missing is NaN.  # [n]"""
        return np.ma.filled(self[name].astype(np.float64), np.nan)

    def texts(self, name: str) -> list[str]:
        """A column of text; missing is ''.  # n"""
        return [str(value) for value in self[name].filled("")]

    def where(self, name: str, value: object) -> NDArray[np.bool_]:
        """Rows whose column has this value.  # [n]"""
        return np.array([found == value for found in _plain(self[name])], dtype=bool)

    @property
    def has(self) -> NDArray[np.bool_]:
        """Rows with a crystal.  # [n]"""
        return self.by_row(np.ones(len(self.at), dtype=bool), False)

    def by_row(self, values: ArrayLike | Sequence[Any], blank: object) -> NDArray[Any]:
        """One value per crystal as one per row, `blank` in rows without a crystal.  # [m] -> [n]"""
        given = np.asarray(values)
        rows = np.full(self.n, blank, dtype=object if isinstance(blank, str) else given.dtype)
        rows[self.at] = given
        return rows

    def with_columns(self, **columns: ArrayLike | Sequence[Any]) -> Outcomes:
        """With these columns, one value per row; None and NaN are missing."""
        return replace(self, columns={**self.columns, **{n: _typed(n, v) for n, v in columns.items()}})

    def with_crystal_columns(self, **columns: ArrayLike | Sequence[Any]) -> Outcomes:
        """With these columns, one value per crystal; what other rows have there stays."""
        found = {}
        for name, values in columns.items():
            column_ = self[name].copy()
            column_[self.at] = _typed(name, values)
            found[name] = column_
        return replace(self, columns={**self.columns, **found})

    def only(self, names: Iterable[str]) -> Outcomes:
        """The same rows and crystals with these columns, in this order."""
        return replace(self, columns={name: self[name] for name in names})

    def onto(self, other: Outcomes) -> Outcomes:
        """With the other table's columns before its own, and their values where it has none itself."""
        columns = dict(other.columns)
        for name, values in self.columns.items():
            there = ~np.ma.getmaskarray(values)
            columns[name] = other[name].copy()
            columns[name][there] = values[there]
        return replace(self, columns=columns)

    def with_crystals(self, crystals: Crystals, at: NDArray[np.int64]) -> Outcomes:
        """The same rows with other crystals."""
        return replace(self, crystals=crystals, at=at)

    def keep_crystals(self, where: NDArray[np.bool_]) -> Outcomes:
        """The same rows; crystals only where `where` is true.  # [n] bool"""
        kept = np.flatnonzero(where[self.at])
        return replace(self, crystals=self.crystals[kept], at=self.at[kept])

    # Rows

    def take(self, rows: NDArray[np.int64]) -> Outcomes:
        """Some rows, in this order."""
        position = np.full(self.n, -1)
        position[self.at] = np.arange(len(self.at))
        chosen = position[rows]
        return Outcomes(
            len(rows),
            self.crystals[chosen[chosen >= 0]],
            np.flatnonzero(chosen >= 0),
            {name: values[rows] for name, values in self.columns.items()},
        )

    def spread(self, at: NDArray[np.int64], n: int) -> Outcomes:
        """These rows at the places `at` of a table of n rows; the others are empty."""
        columns = {}
        for name, values in self.columns.items():
            columns[name] = _typed(name, [None] * n)
            columns[name][at] = values
        return Outcomes(n, self.crystals, at[self.at], columns)

    @classmethod
    def concatenate(cls, parts: Iterable[Outcomes]) -> Outcomes:
        """The rows of several tables, in order; a column that one lacks is missing there."""
        tables = list(parts)
        names = dict.fromkeys(name for table in tables for name in table.columns)
        starts = np.cumsum([0, *(table.n for table in tables)])
        return cls(
            int(starts[-1]),
            Crystals.concatenate(table.crystals for table in tables),
            np.concatenate(
                [np.zeros(0, np.int64), *(t.at + s for t, s in zip(tables, starts, strict=False))]
            ),
            {name: np.ma.concatenate([table[name] for table in tables]) for name in names},
        )

    def rows(self, names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Rows of plain values, None where missing: all columns, or the named ones."""
        chosen = list(self.columns) if names is None else list(names)
        lists = [_plain(self[name]) for name in chosen]
        for i in range(self.n):
            yield {name: values[i] for name, values in zip(chosen, lists, strict=True)}

    # Files

    def to_json(self) -> dict[str, Any]:
        """Everything, in plain values that come back bit by bit."""
        c = self.crystals
        crystals = {"counts": c.counts, "numbers": c.numbers, "frac": c.frac, "lattice": c.lattice}
        return {
            "n": self.n,
            "columns": {name: _plain(values) for name, values in self.columns.items()},
            "at": self.at.tolist(),
            "crystals": {name: values.tolist() for name, values in crystals.items()},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Outcomes:
        """Inverse of `to_json`."""
        columns = {name: _typed(name, values) for name, values in stored["columns"].items()}
        crystals = Crystals(**{name: np.array(values) for name, values in stored["crystals"].items()})
        return cls(stored["n"], crystals, np.array(stored["at"], dtype=np.int64), columns)


def _typed(name: str, values: ArrayLike | Sequence[Any]) -> Values:
    """Values of a column in its type, None and NaN masked."""
    kind = column(name).kind
    given = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values, dtype=object)
    mask = np.ma.getmaskarray(given) | np.array([v is None or v != v for v in given.tolist()], dtype=bool)
    blank = "" if kind == "text" else 0
    filled = [blank if missing else v for missing, v in zip(mask.tolist(), given.tolist(), strict=True)]
    return np.ma.MaskedArray(np.array(filled, dtype=DTYPES[kind]), mask=mask)


def _plain(values: Values) -> list[Any]:
    return values.tolist()

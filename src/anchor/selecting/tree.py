"""A selection as a tree, and whether it holds for a row.

A comparison with a missing value is neither true nor false, as in SQL: `e_hull < 0.1` and `not e_hull < 0.1`
both leave out what has no energy; `e_hull is missing` finds it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anchor.selecting.fields import FIELDS, Field

Value = float | str | bool
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Node(Protocol):
    """A part of a selection."""

    def test(self, row: Mapping[str, Any]) -> bool | None:
        """True, false, or None where a value is missing."""

    def fields(self) -> list[Field]:
        """Fields that it asks for, in the order of the text."""


@dataclass(frozen=True)
class All:
    """Every part holds; of no parts: always."""

    parts: tuple[Node, ...]

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = [part.test(row) for part in self.parts]
        return False if False in found else None if None in found else True

    def fields(self) -> list[Field]:
        return [field for part in self.parts for field in part.fields()]


@dataclass(frozen=True)
class Any_:
    """One part holds."""

    parts: tuple[Node, ...]

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = [part.test(row) for part in self.parts]
        return True if True in found else None if None in found else False

    def fields(self) -> list[Field]:
        return [field for part in self.parts for field in part.fields()]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Node

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.part.test(row)
        return None if found is None else not found

    def fields(self) -> list[Field]:
        return self.part.fields()


@dataclass(frozen=True)
class Leaf:
    """Something about one field."""

    field: Field

    def fields(self) -> list[Field]:
        return [self.field]


@dataclass(frozen=True)
class Compare(Leaf):
    """Field against a value of its kind, by one of `OPERATORS`."""

    sign: str
    value: Value

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.field.of(row)
        return None if found is None else bool(OPERATORS[self.sign](found, self.value))


@dataclass(frozen=True)
class Among(Leaf):
    """The field is one of several values."""

    values: tuple[Value, ...]

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.field.of(row)
        return None if found is None else found in self.values


@dataclass(frozen=True)
class Contains(Leaf):
    """A text has these letters in it, in this case."""

    text: str

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.field.of(row)
        return None if found is None else self.text in found


@dataclass(frozen=True)
class Missing(Leaf):
    """There is no value."""

    def test(self, row: Mapping[str, Any]) -> bool | None:
        return self.field.of(row) is None


@dataclass(frozen=True)
class Has(Leaf):
    """All of these elements are in it, or one of them."""

    symbols: tuple[str, ...]
    one_is_enough: bool

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.field.of(row)
        if found is None:
            return None
        return (any if self.one_is_enough else all)(symbol in found for symbol in self.symbols)


@dataclass(frozen=True)
class Within(Leaf):
    """It is made of these elements only."""

    symbols: tuple[str, ...]

    def test(self, row: Mapping[str, Any]) -> bool | None:
        found = self.field.of(row)
        return None if found is None else found <= set(self.symbols)


@dataclass(frozen=True)
class Selection:
    """What is wanted.

    Attributes:
        text: As it was typed.
        root: Its tree.
    """

    text: str
    root: Node

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is wanted; one with a missing value that decides is not."""
        return self.root.test(row) is True

    def fields(self) -> list[Field]:
        """Fields that it asks for, each once."""
        return list(dict.fromkeys(self.root.fields()))

    def __and__(self, other: Selection) -> Selection:
        texts = [f"({one.text})" for one in (self, other) if one.text]
        return Selection(" and ".join(texts), All((self.root, other.root)))


def everything() -> Selection:
    """The selection that leaves nothing out."""
    return Selection("", All(()))


def made_of(symbols: Collection[str]) -> Selection:
    """Crystals of these elements only, which the caller has checked."""
    return Selection(f"elements within ({', '.join(symbols)})", Within(FIELDS["elements"], tuple(symbols)))

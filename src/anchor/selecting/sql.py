"""A selection as a condition of a database, every value a bound parameter.

Elements are looked for in the reduced formula by a regular expression, which SQLite answers by Python's and
PostgreSQL by its own; the symbols in it were checked when the text was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from anchor.errors import InputError
from anchor.selecting.fields import Field
from anchor.selecting.tree import (
    OPERATORS,
    All,
    Among,
    Any_,
    Compare,
    Contains,
    Has,
    Missing,
    Node,
    Not,
    Selection,
    Within,
)

Columns = Mapping[str, sa.ColumnElement[Any]]
SYMBOL_ENDS = "(?![a-z])"
"""After a symbol: 'N' is not in 'NaCl'."""


def to_sql(wanted: Selection, columns: Any) -> sa.ColumnElement[bool]:
    """Condition of a query.

    Args:
        wanted: The selection.
        columns: By the names of `Field.column`: those of a table (`candidates.c`), or a dictionary.

    Raises:
        InputError: The table has no such column (`level` of candidates, for instance).
    """
    return _node(wanted.root, columns)


def _node(node: Node, columns: Columns) -> sa.ColumnElement[bool]:
    if isinstance(node, All):
        return sa.and_(sa.true(), *(_node(part, columns) for part in node.parts))
    if isinstance(node, Any_):
        return sa.or_(sa.false(), *(_node(part, columns) for part in node.parts))
    if isinstance(node, Not):
        return sa.not_(_node(node.part, columns))
    if isinstance(node, Has):
        formula = _column(node.field, columns)
        found = [formula.regexp_match(symbol + SYMBOL_ENDS) for symbol in node.symbols]
        return sa.or_(*found) if node.one_is_enough else sa.and_(*found)
    if isinstance(node, Within):
        symbols = "|".join(node.symbols)
        return _column(node.field, columns).regexp_match(rf"^(({symbols}){SYMBOL_ENDS}|[0-9()])+$")
    if isinstance(node, Missing):
        return _column(node.field, columns).is_(None)
    if isinstance(node, Contains):
        return sa.func.replace(_column(node.field, columns), node.text, "") != _column(node.field, columns)
    if isinstance(node, Among):
        return _column(node.field, columns).in_(node.values)
    assert isinstance(node, Compare), f"{type(node).__name__} has no SQL"
    return OPERATORS[node.sign](_column(node.field, columns), node.value)


def _column(field: Field, columns: Columns) -> sa.ColumnElement[Any]:
    """The field's value as an expression."""
    if field.column not in columns:
        raise InputError(
            f"'{field.name}' ({field.about}) is not known here", "it belongs to finds: select among those"
        )
    column = columns[field.column]
    if field.part:
        return column[field.part].as_float()
    if field.kind == "flag" and isinstance(column.type, sa.String):
        return sa.case((column.is_(None), sa.null()), else_=column != "")
    return column

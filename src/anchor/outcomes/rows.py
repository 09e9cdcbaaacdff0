"""Rows of a table of outcomes in the shapes that several views need."""

from __future__ import annotations

from anchor.outcomes.columns import ABOVE, ABOVE_EACH
from anchor.outcomes.table import Outcomes


def each_hull(table: Outcomes) -> list[dict[str, float | None]]:
    """Energy above every hull by the hull's name, of each row; empty where there is no crystal.  # n"""
    before, after = ABOVE_EACH.split("*")
    ours = (n for n in table.columns if n.startswith(before) and n.endswith(after))
    names = [name for name in ours if name != ABOVE]
    keys = [name.removeprefix(before).removesuffix(after) for name in names]
    found = zip(table.has.tolist(), table.rows(names), strict=True)
    return [dict(zip(keys, row.values(), strict=True)) if there else {} for there, row in found]

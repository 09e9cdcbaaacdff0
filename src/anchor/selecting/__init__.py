"""Which crystals are wanted, in a small language: `e_hull < 0.03 and nelements = 3 and elements has Na`.

    wanted = parse("e_hull < 0.03 and elements has Na")
    rows = [row for row in rows if wanted.holds(row)]     # rows of a ledger, or of a catalogue
    query = query.where(to_sql(wanted, candidates.c))     # the same in the database

Nothing that is typed is run: a text becomes a tree of known fields, comparisons and plain values.
"""

from anchor.selecting.fields import FIELDS, Field
from anchor.selecting.language import SelectionError, parse
from anchor.selecting.sql import to_sql
from anchor.selecting.tree import Selection, everything, made_of

__all__ = ["FIELDS", "Field", "Selection", "SelectionError", "everything", "made_of", "parse", "to_sql"]

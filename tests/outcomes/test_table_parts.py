"""Tables of outcomes: choosing, joining and spreading columns, rows and crystals."""

import json

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.outcomes.columns import COLUMNS, Column, declare
from anchor.outcomes.table import Outcomes

ROWS = [
    {"index": 0, "formula": "NaCl", "valid": True, "energy_ev": -0.1 - 0.2},
    {"index": 1, "formula": None, "valid": None, "energy_ev": None},
    {"index": 2, "formula": "", "valid": False, "energy_ev": 1e-300},
]


def test_rows_come_back_as_they_were() -> None:
    table = Outcomes.from_rows(ROWS)
    assert list(table.rows()) == ROWS
    again = Outcomes.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False)))
    assert list(again.rows()) == ROWS
    ragged = Outcomes.from_rows([{"index": 1}, {"formula": "KF"}])
    assert list(ragged.rows()) == [{"index": 1, "formula": None}, {"index": None, "formula": "KF"}]


def test_crystals_by_row(small: Crystals) -> None:
    table = Outcomes.blank(4).with_crystals(small[:2], np.array([1, 3]))
    assert table.has.tolist() == [False, True, False, True]
    assert table.by_row([True, False], False).tolist() == [False, True, False, False]
    assert table.by_row(["a", "longer"], "").tolist() == ["", "a", "", "longer"]
    assert table.by_row(np.array([5, 6]), -1).tolist() == [-1, 5, -1, 6]
    nothing = Outcomes.blank(2)
    assert nothing.by_row(np.zeros(0, dtype=bool), False).tolist() == [False, False]
    assert nothing.by_row([], "").tolist() == ["", ""]


def test_where_is_exact_and_missing_is_nothing() -> None:
    table = Outcomes.from_rows(ROWS)
    assert table.where("formula", "NaCl").tolist() == [True, False, False]
    assert table.where("formula", "").tolist() == [False, False, True]
    assert table.where("relaxation", "capped").tolist() == [False] * 3  # a column that is not here


def test_onto_keeps_what_it_has_and_fills_the_rest(small: Crystals) -> None:
    drawn = Outcomes.of(small[:3]).with_columns(index=[0, 1, 2], status=["drawn"] * 3, reason=["", "bad", ""])
    found = Outcomes.of(small[3]).with_columns(relaxation=["capped"], status=["failed"], reason=[None])
    table = found.spread(np.array([1]), 3).onto(drawn)
    assert list(table.columns) == ["index", "status", "reason", "relaxation"]
    assert table.texts("status") == ["drawn", "failed", "drawn"]
    assert table.texts("reason") == ["", "bad", ""]
    assert table["relaxation"].tolist() == [None, "capped", None]
    assert table.at.tolist() == [1]
    assert table.crystals.formulas == [small.formulas[3]]
    assert drawn.texts("status") == ["drawn"] * 3  # unchanged


def test_only_chooses_and_orders() -> None:
    table = Outcomes.from_rows(ROWS).only(("valid", "n_atoms", "index"))
    assert list(table.columns) == ["valid", "n_atoms", "index"]
    assert table["n_atoms"].tolist() == [None] * 3


def test_own_columns_are_declared_once() -> None:
    with pytest.raises(AnchorError, match="no column 'sparkle'"):
        Outcomes.blank(1).with_columns(sparkle=[1.0])
    try:
        declare(Column("sparkle", "float", "how it shines"))
        declare(Column("sparkle", "float", "how it shines"))
        assert Outcomes.blank(1).with_columns(sparkle=[1])["sparkle"].tolist() == [1.0]
        with pytest.raises(AnchorError, match="already: how it shines"):
            declare(Column("sparkle", "bool", "whether it shines"))
    finally:
        del COLUMNS["sparkle"]

"""The table of outcomes: types, missing values, rows and crystals that stay together."""

import json
import math

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.outcomes.columns import ABOVE, COLUMNS, above, column
from anchor.outcomes.rows import each_hull
from anchor.outcomes.table import Outcomes


@pytest.fixture
def table(small: Crystals) -> Outcomes:
    """Five rows; the second and the last have no crystal."""
    there = np.array([0, 2, 3])
    return Outcomes.of(small[:3]).with_columns(formula=small[:3].formulas).spread(there, 5)


def test_values_have_the_type_of_their_column(table: Outcomes) -> None:
    found = table.with_columns(
        valid=[True, None, np.bool_(False), 1, 0],
        energy_ev=[1, None, math.nan, np.float64(2.5), 3],
        evaluations=[1, None, np.int64(3), 4, 5],
        reason=["a", None, "", "b", "c"],
    )
    assert found["valid"].dtype == bool
    assert found["energy_ev"].dtype == np.float64
    assert found["evaluations"].dtype == np.int64
    names = ("valid", "energy_ev", "evaluations", "reason")
    assert [tuple(row.values()) for row in found.rows(names)] == [
        (True, 1.0, 1, "a"), (None,) * 4, (False, None, 3, ""), (True, 2.5, 4, "b"), (False, 3.0, 5, "c"),
    ]  # fmt: skip
    assert all(
        type(value) in (bool, float, int, str, type(None)) for row in found.rows() for value in row.values()
    )
    assert found.flags("valid").tolist() == [True, False, False, True, False]
    assert np.isnan(found.numbers("evaluations")).tolist() == [False, True, False, False, False]


def test_columns_must_be_declared_and_fit(table: Outcomes) -> None:
    with pytest.raises(AnchorError, match="no column 'vallid'") as error:
        table.with_columns(vallid=[True] * 5)
    assert "valid" in str(error.value)
    with pytest.raises(AnchorError, match=r"shape \(4,\) in a table of 5"):
        table.with_columns(valid=[True] * 4)
    assert column("energy_above_oqmd_hull_ev_per_atom").kind == "float"
    assert column(ABOVE) is COLUMNS[ABOVE]


def test_a_column_that_is_not_there_is_missing(table: Outcomes) -> None:
    assert not table.flags("valid").any()
    assert "valid" not in table
    assert np.isnan(table.numbers(ABOVE)).all()


def test_crystals_stay_with_their_rows(table: Outcomes, small: Crystals) -> None:
    assert table.has.tolist() == [True, False, True, True, False]
    taken = table.take(np.array([3, 1, 0]))
    assert taken.at.tolist() == [0, 2]
    assert taken.crystals.formulas == [small.formulas[2], small.formulas[0]]
    assert [row["formula"] for row in taken.rows()] == [small.formulas[2], None, small.formulas[0]]
    kept = table.keep_crystals(np.array([True, True, False, True, True]))
    assert kept.at.tolist() == [0, 3]
    assert kept.crystals.formulas == [small.formulas[0], small.formulas[2]]
    both = Outcomes.concatenate([table, taken.with_columns(valid=[True] * 3)])
    assert both.at.tolist() == [0, 2, 3, 5, 7]
    assert both["valid"].mask.tolist() == [True] * 5 + [False] * 3


def test_values_of_crystals_leave_other_rows_alone(table: Outcomes) -> None:
    found = table.with_columns(charge_ok=[True] * 5).with_crystal_columns(charge_ok=[False] * 3)
    assert found.flags("charge_ok").tolist() == [False, True, False, False, True]


def test_what_is_known_before_stays_where_nothing_is_found(table: Outcomes) -> None:
    before = Outcomes.blank(5).with_columns(status=["drawn"] * 5, reason=["why"] * 5)
    found = table.with_crystal_columns(status=["measured"] * 3).onto(before)
    assert found.texts("status") == ["measured", "drawn", "measured", "measured", "drawn"]
    assert found.texts("reason") == ["why"] * 5
    assert len(found.crystals) == 3


def test_a_table_survives_json_bit_by_bit(table: Outcomes) -> None:
    table = table.with_columns(
        energy_ev=[0.1 + 0.2, None, 1e-300, -math.pi, 5.0], valid=[True, None] + [False] * 3
    )
    again = Outcomes.from_json(json.loads(json.dumps(table.to_json())))
    assert list(again.rows()) == list(table.rows())
    assert again.at.tolist() == table.at.tolist()
    for name in ("counts", "numbers", "frac", "lattice"):
        np.testing.assert_array_equal(getattr(again.crystals, name), getattr(table.crystals, name))


def test_energies_above_each_hull_by_name(table: Outcomes) -> None:
    placed = table.with_crystal_columns(
        **{ABOVE: [1, 2, 3], above("dft"): [1, 2, 3], above("mp"): [0, None, 2]}
    )
    assert each_hull(placed) == [
        {"dft": 1.0, "mp": 0.0}, {}, {"dft": 2.0, "mp": None}, {"dft": 3.0, "mp": 2.0}, {},
    ]  # fmt: skip

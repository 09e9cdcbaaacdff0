"""The folder of an evaluation: exact crystals, killed writers, changed settings."""

import json
from pathlib import Path

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.store import Store
from anchor.outcomes.table import Outcomes

SETTINGS = {"label": "a", "seeds": [0], "n": 5, "command": "anchor evaluate x", "measure": {"steps": 4}}


def test_crystals_come_back_bit_by_bit(tmp_path: Path, small: Crystals) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    moved = small[0].replace(frac=small[0].frac + np.pi / 7)
    table = Outcomes.blank(2).with_columns(energy_ev=[np.pi / 3, None]).with_crystals(moved, np.array([1]))
    store.append("drawn", 0, table)
    store.append("drawn", 0, table)
    found = store.table("drawn", 0)
    assert list(found.rows()) == 2 * [{"energy_ev": np.pi / 3}, {"energy_ev": None}]
    assert found.at.tolist() == [1, 3]
    for name in ("counts", "numbers", "frac", "lattice"):
        np.testing.assert_array_equal(getattr(found.crystals[1], name), getattr(moved, name))


def test_rows_of_older_folders_are_read(tmp_path: Path, small: Crystals) -> None:
    """One list of rows per line, a crystal in each: `crystal` as drawn, `relaxed` as measured."""
    store = Store(tmp_path)
    store.begin(SETTINGS)
    arrays = {name: getattr(small[0], name).tolist() for name in ("numbers", "frac")}
    stored = {**arrays, "lattice": small[0].lattice[0].tolist()}
    lines = {
        "drawn": [{"index": 0, "cell": None, "crystal": None}, {"index": 1, "cell": "X", "crystal": stored}],
        "measured": [{"index": 1, "energy_ev": -1.5, "relaxed": stored}, {"index": 2, "status": "failed"}],
    }
    for stage, rows in lines.items():
        store.path(stage, 0).write_text(json.dumps(rows) + "\n")  # type: ignore[arg-type]
    drawn, measured = store.table("drawn", 0), store.table("measured", 0)
    assert list(drawn.rows()) == [{"index": 0, "cell": None}, {"index": 1, "cell": "X"}]
    assert (drawn.at.tolist(), measured.at.tolist()) == ([1], [0])
    assert measured.numbers("energy_ev")[0] == -1.5
    for table in (drawn, measured):
        np.testing.assert_array_equal(table.crystals.frac, small[0].frac)
        np.testing.assert_array_equal(table.crystals.lattice, small[0].lattice)


def test_half_a_line_of_a_killed_run_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    store.append("measured", 0, Outcomes.blank(1).with_columns(index=[0]))
    path = store.path("measured", 0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n": 1, "col')
    assert list(store.table("measured", 0).rows()) == [{"index": 0}]
    assert path.read_bytes() == whole
    assert store.table("measured", 7).n == 0


def test_goes_on_with_the_same_settings_and_more_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    store.begin({**SETTINGS, "seeds": [0, 1], "command": "anchor evaluate x --seeds 2", "label": "b"})
    assert store.settings["seeds"] == [0, 1]
    with pytest.raises(InputError, match="leaves some out"):
        store.begin(SETTINGS)


def test_changed_settings_are_refused_with_a_way_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    with pytest.raises(InputError, match=r'another measure: \{"steps": 4\}, not \{"steps": 9\}') as caught:
        store.begin({**SETTINGS, "measure": {"steps": 9}})
    assert "--out" in str(caught.value.hint)
    assert "anchor evaluate x" in str(caught.value.hint)


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="something else"):
        Store(tmp_path).begin(SETTINGS)
    with pytest.raises(InputError, match="not the folder of an evaluation"):
        _ = Store(tmp_path).settings

"""The folder of an evaluation: exact crystals, killed writers, changed settings."""

from pathlib import Path

import numpy as np
import pytest

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.store import Store

SETTINGS = {"label": "a", "seeds": [0], "n": 5, "command": "anchor evaluate x", "measure": {"steps": 4}}


def test_crystals_come_back_bit_by_bit(tmp_path: Path, small: Crystals) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    moved = small[0].replace(frac=small[0].frac + np.pi / 7)
    store.append("drawn", 0, [{"index": 0, "crystal": moved}, {"index": 1, "crystal": None}])
    (row, empty) = store.rows("drawn", 0)
    assert empty == {"index": 1, "crystal": None}
    for name in ("counts", "numbers", "frac", "lattice"):
        np.testing.assert_array_equal(getattr(row["crystal"], name), getattr(moved, name))


def test_half_a_line_of_a_killed_run_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(SETTINGS)
    store.append("measured", 0, [{"index": 0}])
    path = store.path("measured", 0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'[{"index": 1')
    assert store.rows("measured", 0) == [{"index": 0}]
    assert path.read_bytes() == whole
    assert store.rows("measured", 7) == []


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

"""A quick part of `python tests/faults/fuzz.py`: what reads input of strangers takes or refuses it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fuzz


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_every_reader_takes_or_refuses(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    counts = fuzz.fuzz(name, 40, folder)
    assert sum(counts.values()) >= 40
    assert counts["refused"] or name in ("formula", "SQLite")  # these refuse inside


def test_a_traceback_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise KeyError(path.name)

    folder = tmp_path / "inside"
    folder.mkdir()
    strategy, file, _ = fuzz.TARGETS["CIF"]
    monkeypatch.setitem(fuzz.TARGETS, "CIF", (strategy, file, broken))
    with pytest.raises(KeyError):
        fuzz.fuzz("CIF", 5, folder)


def test_a_hang_is_seen() -> None:
    def forever() -> None:
        with fuzz.limited(1):
            while True:
                pass

    with pytest.raises(fuzz.HangError):
        forever()

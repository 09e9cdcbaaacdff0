"""The suite of bad days can fail: what it looks for is seen when it is there. `make faults` runs it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import forked
import lines
import more_lines
import trials
import workspace


def test_harm_is_seen(tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    folder = workspace.copy(template, tmp_path / "top")
    workspace.strangers(folder, "run/mine.cif")
    assert workspace.harmed(tmp_path / "top", ("run/mine.cif",)) == []
    (folder / "run" / "mine.cif").write_text("changed")
    assert workspace.harmed(tmp_path / "top", ("run/mine.cif",)) == ["run/mine.cif"]
    (folder / "run" / "mine.cif").unlink()
    (tmp_path / "top" / "escaped.cif").write_text("x")
    assert workspace.harmed(tmp_path / "top", ("run/mine.cif",)) == ["run/mine.cif", "escaped.cif"]


def test_what_a_full_disk_leaves_is_seen(tmp_path: Path) -> None:
    for name in ("empty.csv", "half.tmp", "whole.csv", "ledger.lock"):
        (tmp_path / name).write_text("" if name in ("empty.csv", "ledger.lock") else "x")
    assert sorted(workspace.empties(tmp_path)) == ["empty.csv", "half.tmp"]


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (None, "", "hang"),
        (1, "Traceback (most recent call last): …", "traceback"),
        (-9, "", "exit code -9"),
        (0, "done", ""),
    ],
)
def test_bad_answers_are_seen(code: int | None, said: str, wrong: str) -> None:
    assert trials.answered(code, said).startswith(wrong)
    assert bool(trials.answered(code, said)) == bool(wrong)


def test_lines_are_many_and_no_two_are_the_same() -> None:
    found = [*lines.all_lines(), *more_lines.all_lines()]
    assert len(found) >= 450
    assert all(line.expect or line.fine for line in found)  # a wrong line has to be answered


def test_time_in_which_others_had_the_processors_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "0.5"]) as process:
        assert forked.pause(process.pid, 0.05) is None  # asleep is not waiting for a processor
        assert forked.queued(process.pid) < 0.45
        monkeypatch.setattr(forked, "queued", lambda _: time.monotonic())
        assert forked.pause(process.pid, 0.05) == 0

"""Errors of the machine become cause and way out; bugs of ours stay visible."""

import errno
import io
import json
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anchor.cli import faults, main
from anchor.errors import AnchorError, InputError
from anchor.paths import BUNDLED


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x", "a.csv"), "no space is left on the disk for 'a.csv'"),
        (OSError(errno.EACCES, "x", "a.csv"), "no permission to use 'a.csv'"),
        (OSError(errno.ENOTDIR, "x", "a.csv"), "in the place of a folder"),
        (OSError(errno.EISDIR, "x", "a.csv"), "is a folder"),
        (OSError(errno.ENAMETOOLONG, "x", "a.csv"), "too long"),
        (OSError(errno.ENOENT, "x", str(BUNDLED / "a")), "installation is damaged"),
        (OSError(errno.EMFILE, "x"), "too many files"),
        (OSError(errno.EXDEV, "strange"), "the system refused: .*strange"),
        (sqlite3.OperationalError("database or disk is full"), "no space is left on the disk"),
        (MemoryError("of 9 GB"), "memory is used up: of 9 GB"),
        (RuntimeError("not enough memory: you tried to allocate 9 bytes"), "memory is used up"),
        (InputError("wrong"), "wrong"),
    ],
)
def test_causes_are_named(error: Exception, words: str) -> None:
    explained = faults.explain(error)
    assert isinstance(explained, AnchorError)
    assert re.search(words, str(explained))


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), OSError("without a number"), RecursionError()]
)
def test_bugs_are_not_explained_away(error: Exception) -> None:
    assert faults.explain(error) is None


def outcome(monkeypatch: pytest.MonkeyPatch, command: Callable[[], object], *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["anchor", *words])
    monkeypatch.setattr(main, "app", command)
    with pytest.raises(SystemExit) as ended:
        main.run()
    return ended.value.code


def failing(error: BaseException) -> Callable[[], object]:
    def command() -> None:
        raise error

    return command


def test_exit_codes_and_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(monkeypatch, failing(InputError("bad", "do this"))) == 2
    assert capsys.readouterr().err == "error: bad\n  do this\n"
    assert outcome(monkeypatch, failing(OSError(errno.ENOSPC, "x", "y")), "--json") == 1
    assert "no space" in json.loads(capsys.readouterr().out)["error"]
    assert outcome(monkeypatch, failing(KeyboardInterrupt())) == 1
    assert capsys.readouterr().err == "interrupted\n"
    assert outcome(monkeypatch, failing(ValueError("a bug"))) == 3
    said = capsys.readouterr().err
    assert "ValueError: a bug" in said
    assert "report it" in said


class Full(io.StringIO):
    """Standard output on a full disk."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_output_that_takes_nothing_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silenced: list[bool] = []
    monkeypatch.setattr(faults, "silence_output", lambda: silenced.append(True))
    monkeypatch.setattr(sys, "stdout", Full())
    assert outcome(monkeypatch, lambda: None, "--json") == 1
    assert "no space is left" in capsys.readouterr().err
    assert silenced


def test_a_closed_pipe_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faults, "silence_output", lambda: None)
    assert outcome(monkeypatch, failing(BrokenPipeError(errno.EPIPE, "x"))) == faults.CLOSED_PIPE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("resume {} -n -5", "greater than or equal"),
        ("search --seed -1", "greater than or equal"),
        ("sample default -n 99999999999", "less than or equal"),
        ("relax /dev/zero", "device"),
        ("hull missing.cif --device cuda:99", "missing.cif"),
        ("search --out {}/taken/deep", "not a folder"),
        ("data convert {}/taken --out {}/taken/x.cif", "not a folder"),
    ],
)
def test_wrong_lines_end_before_any_work(
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr(sys, "argv", ["anchor", *words.replace("{}", str(tmp_path)).split()])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 2
    said = re.sub(r"[\s│]+", " ", capsys.readouterr().err)  # without the frame that typer draws
    assert expected in said
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]

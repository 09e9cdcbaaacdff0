"""What the program tells people to type begins with what they typed."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anchor.cli import program
from anchor.cli.main import app


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("/home/me/.cache/uv/archive/bin/anchor-crystals", "anchor-crystals"),
        ("anchor-crystals.exe", "anchor-crystals"),
        ("/usr/bin/anchor", "anchor"),
        ("/src/anchor/cli/main.py", "anchor"),
        ("pytest", "anchor"),
        ("", "anchor"),
    ],
)
def test_the_name_is_that_of_the_script(monkeypatch: pytest.MonkeyPatch, called: str, name: str) -> None:
    monkeypatch.setattr(sys, "argv", [called, "search"])
    assert program.program() == name


def test_commands_are_those_of_the_tree() -> None:
    groups = {group.name for group in app.registered_groups}
    single = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert set(program.COMMANDS) == groups | single


def test_only_commands_are_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "go on with: anchor resume runs/a, or `anchor import-dft x`; the anchor that began it, anchor 0.1"
    assert program.as_called(text) == text
    monkeypatch.setattr(sys, "argv", ["bin/anchor-crystals"])
    assert program.as_called(text) == (
        "go on with: anchor-crystals resume runs/a, or `anchor-crystals import-dft x`; "
        "the anchor that began it, anchor 0.1"
    )
    for kept in ("runs/anchor search", "my-anchor search", "anchor datafile", "anchor-crystals search"):
        assert program.as_called(kept) == kept


@pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"], ["prior", "--help"]])
def test_help_says_what_was_typed(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["anchor-crystals", *arguments])
    shown = CliRunner().invoke(app, arguments, prog_name="anchor-crystals").output
    assert "anchor-crystals" in shown
    assert not [line for line in shown.splitlines() if " anchor " in f" {line}"]


def test_errors_say_what_was_typed(tmp_path: Path) -> None:
    """Through the entry point, as the installed script calls it."""
    script = tmp_path / "anchor-crystals"
    script.write_text("from anchor.cli.main import run\nrun()\n")
    done = subprocess.run(
        [sys.executable, str(script), "report", str(tmp_path / "nothing")], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "start one with: anchor-crystals search" in done.stderr

"""`anchor serve` as people start and end it."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from anchor.cli import serve as command
from anchor.cli.main import app
from anchor.errors import InputError
from anchor.server.run import _listening


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(InputError, match="uvicorn") as caught:
        command.serve()
    assert caught.value.hint == 'pip install "anchor-crystals[server]"'


def test_help_fits_a_terminal() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "80", "TERM": "dumb"}).output
    assert max(map(len, shown.splitlines())) <= 80
    assert "ssh -L 8321:127.0.0.1:8321 host   to see it from another machine" in shown


def test_a_taken_port_is_said() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}"):
            _listening(port)


def test_only_this_machine_is_listened_to() -> None:
    with _listening(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_it_starts_answers_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    place = tmp_path / "results"
    place.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "anchor.cli.main", "serve", str(place), "--port", "0"],
        env={**os.environ, "ANCHOR_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", process.stdout.readline())
        assert found is not None
        (token,) = (tmp_path / "cache").rglob("token")
        assert token.read_text().strip() == found[2]
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
        answer = httpx.get(f"{found[1]}/api/folder", timeout=120)
        assert answer.json()["campaigns"] == []
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    assert not token.exists()
    assert list(place.iterdir()) == [], "nothing of the page's lies in the folder"

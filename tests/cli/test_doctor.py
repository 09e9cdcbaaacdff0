"""`anchor doctor` tells what works here."""

import json

from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.paths import BUNDLED, sha256

RUNNER = CliRunner()


def test_report_is_complete_and_true() -> None:
    result = RUNNER.invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    ready = {p["name"]: p["ready"] for p in report["potentials"]}
    assert ready["chgnet"]
    assert ready["sevennet-0"]
    assert all(p["reason"] for p in report["potentials"] if not p["ready"])
    assert any(p["ready"] for p in report["priors"])
    oqmd, mp = report["hull"]
    assert oqmd["compounds"] > mp["compounds"] > 90_000
    assert mp["holes"]["holes"] > mp["holes"]["deeper_than_0.05"] > 1000
    files = {f["file"]: f["sha256"] for f in report["files"]}
    assert files["reference-crystals.npz"] == sha256(BUNDLED / "reference-crystals.npz")


def test_text_for_people() -> None:
    result = RUNNER.invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "devices: cpu" in result.output
    assert "absent in the other" in result.output
    assert "pip install 'anchor-crystals[" in result.output  # the way out for what is missing

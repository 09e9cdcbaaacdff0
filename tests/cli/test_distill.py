"""`anchor distill`, `anchor prior save`, `--prior-train`: what they refuse, and where a setting came from."""

from pathlib import Path

import pytest
from small_ledger import caesium_chloride, candidate, small_ledger
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import InputError

RUNNER = CliRunner()


def test_prior_train_is_a_setting_and_off_by_default() -> None:
    shown = RUNNER.invoke(app, ["search", "--print-config", "--prior-train", "stability"]).output
    assert "train: stability  # --prior-train" in shown
    assert "train: none\n" in RUNNER.invoke(app, ["search", "--print-config"]).output
    wrong = RUNNER.invoke(app, ["search", "--print-config", "--prior-train", "novelty"])
    assert isinstance(wrong.exception, InputError)
    assert "'shared'" in str(wrong.exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--prior", "templates"], "not trained by likelihood"),
        (["--prior", "crystalite", "--arms", "relaxd"], "no arm 'relaxd'"),
        (["--prior", "crystalite", "--held-out", "300"], "leave too little"),
        (["--prior", "nothing.safetensors"], "no weights at"),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path: Path, arguments: list[str], why: str) -> None:
    small_ledger(tmp_path / "run", [candidate(i, caesium_chloride(61, 20 + i)) for i in range(4)]).close()
    out = tmp_path / "out"
    result = RUNNER.invoke(app, ["distill", str(tmp_path / "run"), "--out", str(out), *arguments])
    assert result.exception is not None
    assert why in str(result.exception)
    assert not (out / "arms").exists()


def test_a_frozen_prior_has_nothing_to_save(tmp_path: Path) -> None:
    small_ledger(tmp_path / "run", [candidate(0, caesium_chloride(61, 20))]).close()
    for place, why in (("a.safetensors", "keeps its prior frozen"), ("a.txt", "does not end with")):
        result = RUNNER.invoke(app, ["prior", "save", str(tmp_path / "run"), "--out", str(tmp_path / place)])
        assert isinstance(result.exception, InputError)
        assert why in str(result.exception)

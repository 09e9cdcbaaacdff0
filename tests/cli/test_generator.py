"""`anchor generator finetune`: what the campaign is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.config import Config


@pytest.mark.parametrize(("more", "kind"), [((), "strict"), (("--set", "hull.kind=union"), "union")])
def test_rewards_are_those_of_the_strict_hulls_unless_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: tuple[str, ...], kind: str
) -> None:
    started: list[Config] = []

    def start(config: Config, *_: Any, **__: Any) -> None:
        started.append(config)

    monkeypatch.setattr("anchor.cli.search.start_campaign", start)
    line = ["generator", "finetune", "kldm-dng", "--reward", "bal", "--out", str(tmp_path / "ddpo"), *more]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert started[0].hull.kind == kind
    assert started[0].reward.weights == (0.4, 0.4, 0.1, 0.1)

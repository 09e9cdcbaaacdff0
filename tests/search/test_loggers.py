"""Metrics beside the ledger."""

import json
from pathlib import Path

from anchor.search.campaign import StepReport
from anchor.search.ledger import Ledger
from anchor.search.loggers import jsonl_logger, scalars


def test_the_jsonl_file_grows_with_every_step_and_survives_a_resume(tmp_path: Path) -> None:
    ledger, path = Ledger.create(tmp_path, {}, {}, "now"), tmp_path / "metrics.jsonl"
    path.write_text("what a killed run left behind, half a li")
    first = StepReport(0, 8, [], {"beta": 0.01}, {"policy": 0.5})
    log = jsonl_logger(ledger, path)
    log(first)
    assert json.loads(path.read_text()) == {
        "step": 0,
        "structures": 8,
        "beta": 0.01,
        "seconds": {"policy": 0.5},
    }
    assert path.read_text().count("\n") == 1
    jsonl_logger(ledger, path)  # the ledger decides: nothing was stored
    assert path.read_text() == ""


def test_scalars_are_named_by_what_they_are() -> None:
    report = StepReport(0, 2, [{"valid": True}, {"valid": False}], {"beta": 0.01}, {"policy": 0.5})
    assert scalars(report) == {
        "learning/beta": 0.01, "seconds/policy": 0.5, "step/valid": 1, "step/proposed": 2
    }  # fmt: skip

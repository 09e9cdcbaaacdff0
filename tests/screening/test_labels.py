"""Labels from folders of evaluations and of filling runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.arrays import save_arrays
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.cli.policy import app
from anchor.errors import InputError
from anchor.evaluate.labels import evaluation_labels
from anchor.filling.labels import filling_labels
from anchor.filling.make import CHUNKS, FORMULAS, PLAN
from anchor.hull.energies import load_energies
from anchor.hull.references import load_hull
from anchor.outcomes.columns import ABOVE
from anchor.reference.reference import load_reference
from anchor.screening.chances import load_labels

POTENTIAL = "mattersim-1m"


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    """A finished one of five rows: good, not valid, not made, good again, not read."""
    folder = tmp_path / "evaluation"
    folder.mkdir()
    settings = {"command": "anchor evaluate", "seeds": [4], "prior": {"name": "p"}, "measure": {}}
    (folder / "evaluation.json").write_text(json.dumps(settings))
    summary = {"label": "", "footer": {}, "metrics": {}, "seeds": [4], "read": {}}
    (folder / "summary.json").write_text(json.dumps(summary))
    given = [
        ("K5Y3Se7", True, 0.05, "templates-all"),
        ("K3Y5Se9", False, 0.01, "templates-all"),
        ("KY3Se11", False, None, None),
        ("K5Y3Se7", True, -0.3, "templates-all"),
        (None, False, None, None),
    ]
    rows = [dict(zip(("formula", "valid", ABOVE, "made_by"), row, strict=True)) for row in given]
    (folder / "table.jsonl").write_text("".join(json.dumps({**row, "seed": 4}) + "\n" for row in rows))
    return folder


@pytest.fixture
def filling(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A run whose phases are reference crystals, one of them with a bond too short."""
    reference = load_reference()
    energies = load_energies(POTENTIAL, reference.crystals).lowest
    compounds = np.flatnonzero(reference.crystals.compositions.k == 3)[:6]
    folder = tmp_path / "filling"
    (folder / CHUNKS).mkdir(parents=True)
    (folder / PLAN).write_text(json.dumps({"potential": POTENTIAL, "prior": {"name": "p"}, "seed": 2}))
    (folder / FORMULAS).write_text("\n".join(reference.formulas[compounds].tolist()) + "\n")
    columns = {
        "energy": energies[compounds],
        "ended": np.ones(6, dtype=bool),
        "bond_ratio": np.array([1.0, 1.2, 0.9, 1.1, 1.0, 2.0]),
        "kept": np.zeros(0, dtype=np.int64),
    }
    save_arrays(folder / CHUNKS / "00000.npz", columns)
    hull = load_hull(POTENTIAL)
    crystals = reference.crystals[compounds]
    total = energies[compounds] * crystals.counts
    scores = hull.score(crystals, total, checkpoint_hash=hull.identity.checkpoint_hash)
    return folder, scores.energy_above_hull


def test_labels_of_an_evaluation(evaluation: Path) -> None:
    found = evaluation_labels(evaluation)
    assert found.formulas == ["K5Y3Se7", "K3Y5Se9", "KY3Se11"]
    assert found.above_hull[0] == 0.05
    assert np.isnan(found.above_hull[1:]).all()
    assert found.seed.tolist() == [4, 4, 4]


def test_labels_of_a_filling_are_placed_as_a_search_places_them(filling: tuple[Path, np.ndarray]) -> None:
    folder, expected = filling
    found = filling_labels(folder)
    good = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(found.above_hull[good], expected[good], atol=1e-6)
    assert np.isnan(found.above_hull[2])
    with pytest.raises(InputError, match="not the folder of a filling run"):
        filling_labels(folder / CHUNKS)


def test_command_keeps_what_a_search_would_ask_for(
    evaluation: Path, filling: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    """All compounds of the filling here are known, so none of them is a label."""
    out = tmp_path / "labels.csv"
    result = CliRunner().invoke(
        app, ["labels", str(evaluation), str(filling[0]), "--out", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    kept = load_labels(out)
    wanted = Compositions.from_list(["K5Y3Se7", "K3Y5Se9", "KY3Se11"])
    assert kept.formulas == [f for f, ok in zip(wanted.formulas, is_neutral(wanted), strict=True) if ok]
    assert json.loads(result.stdout)["labels"] == len(kept) > 0
    card = json.loads(out.with_suffix(".json").read_text())
    assert card["hash"] == kept.hash
    assert [made.get("command") for made in card["made"]] == ["anchor evaluate", None]
    assert card["made"][1]["plan"]["potential"] == POTENTIAL


def test_a_strangers_card_stays(tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text("mine")
    result = CliRunner().invoke(app, ["labels", str(tmp_path), "--out", str(tmp_path / "l.csv")])
    assert "l.json" in str(result.exception)
    assert "exists" in str(result.exception)
    assert (tmp_path / "l.json").read_text() == "mine"

"""From a ranking in a file to a policy in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.chemistry.composition import Compositions
from anchor.cli.main import app
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Learner
from anchor.screening.policy_fit import asked_cells, read_ranking
from anchor.search.policies import load_trained

FORMULAS = ["NaCl", "Na2O", "MgO", "MgCl2", "Na2S", "MgS", "Li2O", "LiCl", "LiNaO", "NaMgCl3", "LiNaSO4"]


def ranking(path: Path, formulas: list[str] = FORMULAS) -> Path:
    rows = [f"{formula},{0.9 - 0.05 * i},{i}" for i, formula in enumerate(formulas)]
    path.write_text("\n".join(["formula,chance,rank", *reversed(rows)]) + "\n")
    return path


def test_a_ranking_is_read_best_first(tmp_path: Path) -> None:
    formulas, chances = read_ranking(ranking(tmp_path / "r.csv"), most=4)
    assert formulas.formulas == FORMULAS[:4]
    np.testing.assert_allclose(chances, [0.9, 0.85, 0.8, 0.75])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no ranking"),
        ("a,b\n1,2\n", "columns"),
        ("formula,chance\nNaCl,high\n", "not a number"),
        ("", "columns"),
    ],
)
def test_unreadable_rankings_say_why(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "r.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_ranking(path)


def test_a_pipe_is_no_ranking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.csv")
    with pytest.raises(InputError, match="a pipe"):
        read_ranking(tmp_path / "r.csv")


def test_cells_have_as_many_units_as_the_query_needs() -> None:
    formulas = Compositions.from_list(["NaCl", "MgAl2O4", "NaMgCl3"])
    assert asked_cells(formulas, "free", 20) is formulas
    cells = asked_cells(formulas, "cell", 20)
    assert cells.formulas == formulas.formulas
    assert cells.n_atoms[1] == 14  # spinels have two formula units in the primitive cell
    assert (cells.n_atoms <= 20).all()


def test_command_writes_a_policy_that_a_search_can_start_from(tmp_path: Path) -> None:
    out = tmp_path / "new" / "policy.safetensors"
    arguments = [
        "policy", "fit", "--ranking", str(ranking(tmp_path / "r.csv")), "--out", str(out), "--effective", "6",
        "--steps", "3", "--hidden", "16", "--embedding", "8", "--json",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    card = json.loads(out.with_suffix(".json").read_text())
    assert card["ranking"]["formulas"] == len(FORMULAS)
    assert card["ranking"]["mean_chance_of_best_1000"] == pytest.approx(0.65)
    assert card["curve"][-1]["step"] == 3
    trained = load_trained(str(out))
    assert trained.network.informed
    assert trained.config.prior.query == "free"
    assert len(trained.draw(5)) == 5
    learner = Learner.start(trained.config, Limits.from_config(trained.space), policy=trained.network)
    assert learner.rollout(0).compositions


def test_command_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    path = ranking(tmp_path / "r.csv")
    for arguments, message in (
        (["--out", str(tmp_path / "p.txt")], "must end with .safetensors"),
        (["--out", str(tmp_path / "p.safetensors")], "cannot be spread"),
        (
            [
                "--out",
                str(tmp_path / "p.safetensors"),
                "--effective",
                "3",
                "--set",
                "action_space.elements=[Fe, P]",
            ],
            "none of the",
        ),
    ):
        result = CliRunner().invoke(app, ["policy", "fit", "--ranking", str(path), *arguments])
        assert result.exit_code
        assert message in str(result.exception or result.output)
        assert not (tmp_path / "p.safetensors").exists()

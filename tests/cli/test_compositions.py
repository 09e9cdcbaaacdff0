import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from anchor.cli.main import app
from anchor.errors import InputError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["compositions", *arguments])


@pytest.mark.parametrize(
    ("source", "measure"), [("random", "hierarchical"), ("neutral", "formulas"), ("neutral", "flat")]
)
def test_sample_names_its_measure_and_repeats(source: str, measure: str) -> None:
    arguments = ["sample", "--source", source, "--measure", measure, "-n", "7", "--seed", "3", "--json"]
    first, second = run(*arguments), run(*arguments)
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert (document["source"], document["measure"], document["seed"]) == (source, measure, 3)
    assert len(document["compositions"]) == 7
    assert document["neutral"] == sum(row["neutral"] for row in document["compositions"])
    if source == "neutral":
        assert document["neutral"] == 7
    row = document["compositions"][0]
    assert sum(row["counts"]) == row["n_atoms"]


def test_sample_default_measures_are_printed() -> None:
    lines = run("sample", "--source", "random", "-n", "4").stdout.splitlines()
    assert len(lines) == 5
    assert all(line.endswith("random\thierarchical") for line in lines[1:])


def test_unknown_names_are_input_errors() -> None:
    assert "did you mean 'neutral'" in str(run("sample", "--source", "neutrl").exception)
    assert isinstance(run("sample", "--measure", "hierarchical").exception, InputError)


def test_check_reports_each_formula() -> None:
    result = run("check", "Li2FeSiO4", "Fe6O8", "FeNi", "XeF2", "Fe300O400", "--json")
    assert result.exit_code == 0
    olivine, magnetite, alloy, noble, huge = json.loads(result.stdout)
    assert (olivine["formula"], olivine["action"], olivine["neutral"]) == ("Li2FeSiO4", True, True)
    assert magnetite["formula"] == "Fe3O4"
    assert magnetite["states"] == {"Fe": [3, 3, 3, 3, 2, 2], "O": [-2] * 8}
    assert (alloy["neutral"], alloy["states"]) == (False, None)
    assert (noble["action"], "Xe" in noble["outside"]) == (False, True)
    assert huge["neutral"] is None
    text = run("check", "Fe6O8").stdout
    assert "Fe 4×+3 2×+2, O 8×-2" in text


def test_check_goes_on_after_a_bad_formula_and_exits_with_2() -> None:
    command = [sys.executable, "-m", "anchor.cli.main", "compositions", "check", "li2 fe si o4", "NaCl"]
    code = "from anchor.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command[3:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "did you mean 'Li2FeSiO4'?" in done.stderr
    assert "NaCl" in done.stdout


def test_count_prints_the_exact_sizes() -> None:
    result = run("count", "--json")
    assert result.exit_code == 0
    by_k = json.loads(result.stdout)["by_k"]
    assert by_k["2"]["neutral_formula_units"] == 43_996
    assert by_k["4"]["neutral_actions"] == sum(by_k["4"]["neutral_by_atoms"].values())

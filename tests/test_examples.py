"""The examples run as they are, with tiny settings."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES = {
    "sodium_cathodes": (["-n", "32", "--finds", "2", "--out", "run"], "", "run/ledger.db"),
    "rescore_structures": (["--out", "eval"], "new_msun         0 of 4", "eval/summary.json"),
    "own_potential_and_prior": (["-n", "32", "--out", "run"], "AgAu", "run/ledger.db"),
}


@pytest.mark.parametrize("name", LINES)
def test_example_runs_elsewhere(name: str, tmp_path: Path) -> None:
    """In somebody's empty folder: nothing of the repository's is needed but the file."""
    options, said, made = LINES[name]
    command = [sys.executable, EXAMPLES / f"{name}.py", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert (tmp_path / made).is_file()


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(LINES)


def test_notebook_stores_no_outputs() -> None:
    for cell in nbformat.read(EXAMPLES / "first-search.ipynb", as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell, with a smaller search."""
    monkeypatch.setenv("ANCHOR_EXAMPLE_N", "64")
    notebook = nbformat.read(EXAMPLES / "first-search.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {cell.source: cell.outputs[-1].data for cell in notebook.cells if cell.get("outputs")}
    for source in ("best[0].view()", "found.plot()"):
        assert {"text/html", "application/vnd.jupyter.widget-view+json"} & set(shown[source]), "a picture"
    assert (tmp_path / "crystals.extxyz").is_file()

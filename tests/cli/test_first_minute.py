"""What a new user trips over: each of these was met, mended, and must stay so."""

import gzip
import json
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure
from typer.testing import CliRunner

from anchor.cli.common import print_table
from anchor.cli.found import brief
from anchor.cli.main import app
from anchor.errors import InputError
from anchor.formats import load
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
from anchor.outcomes.tally import Tally
from anchor.reference.reference import load_reference
from anchor.reward.objectives import load_objective
from anchor.search import ledger as module
from anchor.search.ledger import Ledger

RUN = CliRunner().invoke


def refused(*arguments: object) -> str:
    """What a command says when it refuses; it must not have loaded anything heavy for that."""
    result = RUN(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reference = load_reference()
    (rows,) = np.nonzero(reference.formulas == "NaCl")
    path = tmp_path_factory.mktemp("salt") / "POSCAR_NaCl"
    reference.crystals[[int(rows[0])]].to_structures()[0].to(filename=str(path), fmt="poscar")
    return path


@pytest.mark.parametrize("name", ["POSCAR_NaCl", "CONTCAR_relaxed", "POSCAR", "NaCl.POSCAR.gz", "1_CONTCAR"])
def test_poscars_are_known_by_their_names(salt: Path, tmp_path: Path, name: str) -> None:
    data = salt.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert load(tmp_path / name).crystals.formulas == ["NaCl"]
    assert load(tmp_path).crystals.formulas == ["NaCl"], "in a folder, too"


def test_a_word_that_holds_poscar_is_no_poscar(salt: Path, tmp_path: Path) -> None:
    (tmp_path / "MYPOSCARS").write_bytes(salt.read_bytes())
    with pytest.raises(InputError, match="no crystals"):
        load(tmp_path)


@pytest.mark.parametrize("command", ["relax", "hull"])
def test_a_format_can_be_named(salt: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "x.dat").write_bytes(salt.read_bytes())
    assert "unknown kind of file" in refused(command, tmp_path / "x.dat")
    assert "did you mean 'poscar'" in refused(command, tmp_path / "x.dat", "--format", "posca")


@pytest.mark.parametrize(
    "command",
    [
        ("relax", "{}", "--out", "x.docx"),
        ("prior", "sample", "NaCl", "--out", "x.docx"),
        ("data", "convert", "{}", "--out", "x.docx"),
        ("export", "nowhere", "--out", "x.docx"),
    ],
)
def test_an_unknown_ending_is_refused_before_the_work(salt: Path, command: tuple[str, ...]) -> None:
    assert "ending of x.docx" in refused(*(part.format(salt) for part in command))


def test_an_existing_folder_is_refused_before_the_work(salt: Path, tmp_path: Path) -> None:
    assert "exists and is a folder" in refused("relax", salt, "--out", tmp_path, "--overwrite")


def test_wrong_limits_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    search = ("search", "--out", tmp_path / "run")
    assert refused(*search, "--elements", "li,fe").endswith("did you mean Li,Fe?")
    assert "84" not in refused(*search, "--elements", "Qq")
    assert refused(*search, "--elements", "Li,O", "--must-contain", "Na")
    assert not (tmp_path / "run").exists()


def test_our_own_table_of_finds_can_be_read(salt: Path, tmp_path: Path) -> None:
    (tmp_path / "finds").mkdir()
    structure = load(salt).crystals.to_structures()[0]
    (tmp_path / "finds" / "01-NaCl.cif").write_text(structure.to(fmt="cif"))
    (tmp_path / "secret.cif").write_text(structure.to(fmt="cif"))
    table = tmp_path / "finds" / ".." / "finds.csv"
    table.write_text(f"cif,what,formula,{ABOVE}\nfinds/01-NaCl.cif,find,NaCl,-0.01\n")
    loaded = load(table)
    assert loaded.crystals.formulas == ["NaCl"]
    assert loaded.properties[ABOVE] == pytest.approx([-0.01])
    inside = tmp_path / "finds" / "finds.csv"
    inside.write_text("cif,what\n../secret.cif,find\n")
    with pytest.raises(InputError):
        load(inside)  # no file outside of the table's folder


def find_row() -> dict[str, Any]:
    return {
        "what": "find", "level": None, "formula": "NaCl", "spacegroup": "Fm-3m", ABOVE: -0.0123456,
        ABOVE_WITH_FINDS: None,
        "energy_above_each_hull_ev_per_atom": {"dft": 0.5}, "novelty_reference": 0.75, "n_atoms": 2,
        "relaxation": "converged", "why": "", "known_in": "", "suspicious": False, "thin": "", "holes": "",
    }  # fmt: skip


def test_numbers_in_json_are_numbers() -> None:
    (row,) = json.loads(json.dumps(brief([find_row()])))
    assert row["e_hull"] == -0.0123456
    assert row["novelty"] == 0.75
    assert row["e_hull_with_finds"] is None
    assert row["level"] is None


def test_new_sun_counts_what_the_table_of_finds_may_hold() -> None:
    tally = Tally()
    row = {"formula": "A", "valid": True, "status": "scored", "novelty": 0.9, ABOVE: -0.1, "known_in": ""}
    tally.add(row)
    tally.add({**row, "formula": "B", "known_in": "mp"})
    assert (tally.counts["sun"], tally.counts["new_sun"], tally.counts["new_msun"]) == (2, 1, 1)


def test_a_comparison_that_nothing_draws_is_refused() -> None:
    assert "--picture" in refused("report", "nowhere", "--compare", "elsewhere")


def test_modules_of_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def one(structures):\n    return [1.0] * len(structures)\n"
    (tmp_path / "my_reward_of_a_test.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    salt = Structure(Lattice.cubic(5.6), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    assert load_objective("my_reward_of_a_test:one")([salt]).tolist() == [1.0]


def test_a_worker_says_nothing_when_it_is_interrupted() -> None:
    """Ctrl-C goes to all processes of a terminal; the parent alone answers it."""
    ours, theirs = Pipe()
    command = [sys.executable, "-P", "-m", "anchor.executors.worker", str(theirs.fileno())]
    worker = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    theirs.close()

    def ask() -> Any:
        ours.send((abs, -1, None))
        return [ours.recv() for _ in ("started", "done")][1][1].value

    assert ask() == 1
    worker.send_signal(signal.SIGINT)
    assert ask() == 1, "it goes on"
    ours.close()
    assert worker.communicate(timeout=60)[1] == b""


def test_a_ledger_on_a_read_only_disk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = dict.fromkeys(module.IDENTITY, "x")
    Ledger.create(tmp_path / "run", {"a": 1}, identity, "now").close()
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    ledger = Ledger.open(tmp_path / "run")
    assert ledger.config == {"a": 1}
    assert "immutable" in str(ledger._engine.url)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"ledger.db"}


@pytest.mark.parametrize(("width", "lines"), [(120, 1), (50, 6)])
def test_numbers_are_whole_at_any_width(
    width: int, lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table where there is room, else a block of lines for each row."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    heads = [
        "structure",
        "formula",
        "above hull eV/atom",
        "formation eV/atom",
        "competing phases",
        "note",
        "status",
    ]
    row = ["POSCAR_NaCl", "NaCl", "-0.0023", "-2.0311", "0.5 Na2Cl2 + 0.5 Cl2Na2", "-", "scored, converged"]
    print_table(heads, [row], title="a title")
    out = capsys.readouterr().out
    assert "…" not in out
    assert all(part in out for part in row if part != "-")
    assert "note" not in out, "nothing is said in this column"
    assert sum(any(part in line for part in row if part != "-") for line in out.splitlines()) == lines

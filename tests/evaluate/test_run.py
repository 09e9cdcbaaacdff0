"""Whole evaluations with a protocol that costs nothing: rows, resuming, reuse, outputs."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ase.io
import pytest
from toy_protocol import ToyProtocol

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import find_source
from anchor.formats import write
from anchor.paths import alone
from anchor.priors import load_prior

OUTPUTS = ("table.csv", "table.jsonl", "generated.extxyz", "relaxed.extxyz", "summary.json")


@pytest.fixture
def files(tmp_path: Path, small: Crystals) -> Path:
    """Ten structures and one that cannot be read."""
    write(tmp_path / "in" / "a.extxyz", small[:10])
    (tmp_path / "in" / "b.extxyz").write_text("what is this\n")
    return tmp_path / "in"


def run(files: Path, out: Path, **options) -> FinishedEvaluation:  # type: ignore[no-untyped-def]
    return evaluate(find_source([str(files)]), ToyProtocol(**options), out, n=None, seeds=[0])


def test_every_structure_keeps_a_row(files: Path, tmp_path: Path, small: Crystals) -> None:
    done = run(files, tmp_path / "out", swell=1.1)
    rows = done.rows()
    assert done.summary["read"]["structures"] == done.summary["read"]["rows"] == len(rows) == 11
    assert [row["index"] for row in rows] == list(range(11))
    assert rows[-1]["status"] == "failed"
    assert "b.extxyz" in rows[-1]["file"]
    assert [row["formula"] for row in rows[:-1]] == small[:10].formulas
    # brute-force counts
    volumes = 1.1**3 * small[:10].volume / small[:10].counts
    hydrogen = [1 in crystal.numbers for crystal in small[:10]]
    dense = sum(v < 15 and not h for v, h in zip(volumes, hydrogen, strict=True))
    metrics = done.summary["metrics"]
    assert (metrics["dense"]["pooled"]["k"], metrics["dense"]["pooled"]["n"]) == (dense, 11)
    assert metrics["unique"]["pooled"]["k"] == len(set(small[:10].formulas))
    assert metrics["failed"]["mean"] == 1 + sum(hydrogen)
    assert metrics["dense"]["std"] is None  # one seed
    frames = ase.io.read(tmp_path / "out" / "relaxed.extxyz", ":")
    assert len(frames) == 10 - sum(hydrogen)
    assert len(ase.io.read(tmp_path / "out" / "generated.extxyz", ":")) == 10
    with (tmp_path / "out" / "table.csv").open() as table:
        assert len(list(csv.DictReader(table))) == 11


def test_interrupted_and_resumed_gives_the_same_files(files: Path, tmp_path: Path) -> None:
    whole = run(files, tmp_path / "whole")
    for stop in (0, 6, 3, 4):  # at once, in the second chunk, in the second again, before the third
        with pytest.raises(KeyboardInterrupt):
            run(files, tmp_path / "parts", die_after=stop)
    resumed = run(files, tmp_path / "parts")
    for name in OUTPUTS:
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_two_at_once_in_one_folder_are_refused(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(files, out, die_after=3)
    with (
        alone(out / "checkpoint" / "lock", "testing"),
        pytest.raises(AnchorError, match="another process is evaluating into"),
    ):
        run(files, out)
    assert len(run(files, out).rows()) == 11


def test_killed_in_the_middle_and_resumed(files: Path, tmp_path: Path) -> None:
    whole = run(files, tmp_path / "whole")
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "import torch; torch.set_num_threads(int(sys.argv[4]))\n"
        "from toy_protocol import ToyProtocol\n"
        "from anchor.evaluate.run import evaluate; from anchor.evaluate.sources import find_source\n"
        "evaluate(find_source([sys.argv[2]]), ToyProtocol(seconds=0.3), Path(sys.argv[3]), n=None, seeds=[0])"
    )
    out = tmp_path / "killed"
    threads = json.loads((whole.folder / "evaluation.json").read_text())["threads"]
    here = str(Path(__file__).parents[1] / "helpers")
    process = subprocess.Popen([sys.executable, "-c", code, here, str(files), str(out), str(threads)])
    checkpoint = out / "checkpoint" / "seed-0.measured.jsonl"
    while not checkpoint.is_file() and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (out / "summary.json").exists()
    with pytest.raises(InputError, match="no summary") as caught:
        FinishedEvaluation.load(out)
    assert "not finished" in str(caught.value.hint)
    resumed = run(files, out)
    for name in OUTPUTS:
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_changed_protocol_or_files_are_refused(files: Path, tmp_path: Path, small: Crystals) -> None:
    run(files, tmp_path / "out")
    with pytest.raises(InputError, match="another measure"):
        run(files, tmp_path / "out", swell=1.2)
    with pytest.raises(InputError, match="another footer"):
        run(files, tmp_path / "out", limit=3.0)
    write(files / "a.extxyz", small[:9], overwrite=True)
    with pytest.raises(InputError, match="another source"):
        run(files, tmp_path / "out")


def test_other_flags_of_the_same_structures_measure_nothing(files: Path, tmp_path: Path) -> None:
    first = run(files, tmp_path / "first")
    strict = ToyProtocol(limit=5.0)
    again = evaluate(find_source([str(first.folder)]), strict, tmp_path / "strict", n=None, seeds=[0])
    assert strict.measured == 0
    fresh = run(files, tmp_path / "fresh", limit=5.0)
    assert [r["dense"] for r in again.rows()] == [r["dense"] for r in fresh.rows()]
    assert [r["reason"] for r in again.rows()] == [r["reason"] for r in fresh.rows()]
    swollen = ToyProtocol(swell=1.3)
    evaluate(find_source([str(first.folder)]), swollen, tmp_path / "swollen", n=None, seeds=[0])
    assert swollen.measured == 10  # measured in another way: nothing to take over
    relaxed = evaluate(
        find_source([f"{first.folder}:relaxed"]), ToyProtocol(), tmp_path / "relaxed", n=None, seeds=[0]
    )
    assert [r["cell"] for r in relaxed.rows()] == [r["cell"] for r in first.rows()]


def test_compositions_are_paired_between_priors(tmp_path: Path) -> None:
    source = find_source(["neutral"], elements=["Na", "Mg", "O", "F", "Cl"])
    tables = [
        evaluate(source, ToyProtocol(), tmp_path / name, n=9, seeds=[0, 4], prior=load_prior(name)).rows()
        for name in ("templates", "random")
    ]
    assert [r["cell"] for r in tables[0]] == [r["cell"] for r in tables[1]]
    assert [r["volume_a3_per_atom"] for r in tables[0]] != [r["volume_a3_per_atom"] for r in tables[1]]
    assert [r["seed"] for r in tables[0]] == [0] * 9 + [4] * 9
    one = evaluate(source, ToyProtocol(), tmp_path / "one", n=9, seeds=[4], prior=load_prior("random"))
    drop = lambda row: {k: v for k, v in row.items() if k != "seed"}  # noqa: E731
    assert [drop(r) for r in one.rows()] == [drop(r) for r in tables[1][9:]]  # seeds do not know each other


def test_what_cannot_be_asked_is_refused(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="compositions only"):
        evaluate(find_source(["random"]), ToyProtocol(), tmp_path / "a", n=2, seeds=[0])
    with pytest.raises(InputError, match=r"has the seeds \[0\] only"):
        evaluate(find_source([str(files)]), ToyProtocol(), tmp_path / "b", n=None, seeds=[0, 1])

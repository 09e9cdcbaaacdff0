"""A calculation in a process of its own: whatever happens to it, there is a status.

A shell script stands where the interpreter of GPAW would, so that ends of a process are tested without it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from anchor.dft.engine import PYTHON, Calculator, gpaw_python
from anchor.dft.jobs import Job
from anchor.dft.store import Energy, Store
from anchor.errors import AnchorError, MissingDependencyError
from anchor.paths import alone


@pytest.fixture
def calculator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calculator:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path / "cache"))
    return Calculator(Store(tmp_path / "energies", shipped=None))


def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Something else in the place of GPAW's python: $1 is the script, $2 the job, $3 the result."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    monkeypatch.setenv(PYTHON, str(path))


def test_without_gpaw_the_error_names_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PYTHON, str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependencyError, match="nowhere is no interpreter"):
        gpaw_python()
    monkeypatch.delenv(PYTHON)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError) as caught:
        gpaw_python()
    assert PYTHON in str(caught.value)
    assert "anchor dft inputs" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "limit", "status"),
    [
        ("exec sleep 60", 0.3, "out of time: more than 0 s"),
        ("kill -9 $$", 60, "killed: by SIGKILL"),
        ("echo first >&2; echo last words >&2; exit 3", 60, "failed: last words"),
        ("exit 0", 60, "failed: it said nothing"),
        ('echo \'{"status": "not converged", "reason": "so"}\' > "$3"', 60, "not converged: so"),
    ],
)
def test_every_end_has_a_status(
    calculator: Calculator,
    job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    limit: float,
    status: str,
) -> None:
    interpreter(tmp_path, monkeypatch, line)
    (found,) = replace(calculator, time_limit_s=limit)([job])
    assert found.text == status
    assert found.energy is None
    assert calculator.store.get(job) is None  # it will be tried again


def test_a_result_is_stored_and_not_calculated_twice(
    calculator: Calculator, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = '{"status": "done", "energy_ev": -6.5}'
    interpreter(tmp_path, monkeypatch, f"echo x >> {tmp_path}/runs; echo '{answer}' > \"$3\"")
    said: list[str] = []
    calculator = replace(calculator, on_progress=said.append)
    first, again = calculator([job, job])
    assert first == again
    assert first.per_atom == -3.25
    assert len(said) == 2
    (third,) = calculator([job])
    assert (third.source, third.energy) == ("cache", -6.5)
    assert (tmp_path / "runs").read_text() == "x\n"
    assert [p.suffix for p in calculator.store.folder.iterdir()] == [".json"]  # nothing else is left


def test_known_only_calculates_nothing(calculator: Calculator, job: Job) -> None:
    other = replace(job, cutoff=300.0)
    calculator.store.put(other, Energy("done", "", -1.0, 2))
    missing, known = replace(calculator, known_only=True)([job, other])
    assert missing.status == "not calculated"
    assert known.energy == -1.0


def test_two_processes_do_not_calculate_the_same(
    calculator: Calculator, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter(tmp_path, monkeypatch, "exit 0")
    lock = calculator.store.path(job).with_suffix(".lock")
    with alone(lock, "testing"), pytest.raises(AnchorError, match="another process is calculating NaCl"):
        calculator.calculate(job)


# With GPAW


@pytest.mark.usefixtures("gpaw")
def test_rock_salt(calculator: Calculator, job: Job) -> None:
    """With a quarter of the plane waves that it needs: a number of the right size, from the real code."""
    (found,) = calculator([job])
    assert found.status == "done", found.text
    assert found.energy == pytest.approx(-6.4, abs=0.4)
    assert found.about["cpu_seconds"] > 0
    assert found.about["code"].startswith("GPAW")


@pytest.mark.usefixtures("gpaw")
def test_too_little_memory_is_a_status(calculator: Calculator, job: Job) -> None:
    (found,) = replace(calculator, memory_gb=0.15)([job])
    assert found.status in ("out of memory", "failed", "killed")
    assert found.energy is None


def calculates(pid: str) -> bool:
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and "gpaw_process" in command.read_text()


@pytest.mark.usefixtures("gpaw")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_process_outlives_a_killed_anchor(job: Job, tmp_path: Path) -> None:
    """Killed in the middle; the next run calculates what is missing."""
    slow = replace(job, mesh=(9, 9, 9), cutoff=400.0)
    (tmp_path / "job.json").write_text(json.dumps(slow.to_dict()))
    code = (
        "import json, sys; from pathlib import Path; from anchor.dft.engine import Calculator\n"
        "from anchor.dft.jobs import Job; from anchor.dft.store import Store\n"
        "job = Job.from_dict(json.loads(Path(sys.argv[1]).read_text()))\n"
        "Calculator(Store(Path(sys.argv[2]), shipped=None))([job])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "job.json"), str(tmp_path / "store")]
    parent = subprocess.Popen(command)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (found := [pid for pid in children.read_text().split() if calculates(pid)]):
        time.sleep(0.1)
        assert parent.poll() is None
    child = found[0]
    time.sleep(1.0)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()
    store = Store(tmp_path / "store", shipped=None)
    assert store.get(slow) is None
    assert Calculator(store).calculate(replace(slow, mesh=(2, 2, 2))).status == "done"

"""Relaxations on several processes: the same numbers, and what happens when one of them dies."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from hypothesis import given
from hypothesis import strategies as st
from relax_surfaces import Morse, rattled

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.potentials.registry import load_potential
from anchor.relax.engine import relax
from anchor.relax.messages import from_relaxation, receive, send, to_relaxation
from anchor.relax.parallel import Relaxer, deal
from anchor.relax.result import Relaxation, join

SETTINGS = {"cell": False, "max_steps": 4, "fmax": 0.01, "optimizer": "quasi-newton", "symmetry": True}


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 120))
def test_everybody_is_dealt_once_and_evenly(counts: list[int], atoms: int) -> None:
    parts = deal(counts, atoms)
    assert sorted(i for part in parts for i in part) == list(range(len(counts)))
    assert all(part == sorted(part) for part in parts)
    assert len(parts) <= -(-sum(counts) // atoms)
    loads = [sum(counts[i] for i in part) for part in parts]
    if parts:
        assert max(loads) - min(loads) <= max(counts)


def equal(a: Relaxation, b: Relaxation) -> None:
    for name in ("energy", "steps", "evaluations", "first_converged_step", "max_force", "status"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("counts", "numbers", "frac", "lattice"):
        np.testing.assert_array_equal(getattr(a.crystals, name), getattr(b.crystals, name))
    assert a.reason == b.reason
    assert [path.tolist() for path in a.path_energy] == [path.tolist() for path in b.path_energy]


def test_messages_and_joined_parts_keep_every_row() -> None:
    crystals = Crystals.concatenate([rattled(0, n=3), Crystals.from_atoms([bulk("Au")])])  # gold: not covered
    whole = relax(crystals, Morse(), cell=True, max_steps=5, fmax=0.01)
    assert whole.status[-1] == "failed"
    stream = io.BytesIO()
    send(stream, from_relaxation(whole))
    with pytest.raises(EOFError):
        receive(io.BytesIO(stream.getvalue()[:-9]))
    nothing = whole[np.array([], dtype=np.int64)]
    send(stream, from_relaxation(nothing))
    stream.seek(0)
    equal(to_relaxation(receive(stream)), whole)
    equal(to_relaxation(receive(stream)), nothing)
    with pytest.raises(EOFError):
        receive(stream)
    order = np.array([3, 1, 0, 2])
    back = join([whole[order[:2]], whole[order[2:]]])[np.argsort(order)]
    equal(back, whole)


def salts() -> Crystals:
    """Enough for several parts, one of them an element that MatterSim does not know."""
    rock = [bulk("MgO", "rocksalt", a=4.1 + 0.02 * k) * (2, 2, 2) for k in range(10)]
    for atoms in rock[5:]:
        atoms.rattle(0.05, seed=len(atoms))
    return Crystals.from_atoms([*rock, bulk("Po", "sc", a=3.3)])


def test_workers_give_the_same_bits_as_this_process() -> None:
    potential = load_potential("mattersim-1m")
    alone = Relaxer(potential)(salts(), **SETTINGS)
    two = Relaxer(potential, workers=2)
    for _ in range(2):  # workers are used again
        together = two(salts(), **SETTINGS)
        equal(together.relaxation, alone.relaxation)
    assert alone.relaxation.status[-1] == "failed"
    assert 0 < together.inside < together.seconds
    assert len(two(Crystals.empty(), **SETTINGS).relaxation) == 0
    with pytest.raises(AnchorError, match="fmax"):
        two(salts(), **{**SETTINGS, "fmax": -1.0})


def test_a_worker_that_dies_is_reported() -> None:
    relaxer = Relaxer(load_potential("mattersim-1m"), workers=2)
    relaxer(salts(), **SETTINGS)
    assert relaxer._idle is not None
    worker = relaxer._idle.get()
    relaxer._idle.put(worker)
    worker.kill()
    worker.wait()
    with pytest.raises(AnchorError, match=r"ended unexpectedly \(exit code -9\).*\n*.*run.workers=1"):
        relaxer(salts(), **SETTINGS)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_workers_end_with_whoever_started_them_and_leave_signals_to_it() -> None:
    code = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../helpers"]
from test_parallel import SETTINGS, salts
from anchor.potentials.registry import load_potential
from anchor.relax.parallel import Relaxer
relaxer = Relaxer(load_potential("mattersim-1m"), workers=2)
relaxer(salts(), **SETTINGS)
workers = [relaxer._idle.get() for _ in range(2)]
for worker in workers:
    relaxer._idle.put(worker)
print(*[worker.pid for worker in workers], flush=True)
sys.stdin.readline()
relaxer(salts(), **SETTINGS)
print("still there", flush=True)
sys.stdin.readline()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        for pid in pids:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "still there\n"
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)

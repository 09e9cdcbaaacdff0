"""Executors with real processes: order kept, hangs killed, deaths and exceptions reported, work goes on."""

from __future__ import annotations

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tasks
import torch

from anchor.errors import AnchorError, InputError
from anchor.executors import Executor, Inline, Processes, State, cores, make_executor, workers_for


@pytest.fixture(scope="module")
def pool() -> Iterator[Processes]:
    with Processes(workers=2, seconds=60) as pool:
        yield pool


@pytest.fixture(params=["inline", "processes"])
def executor(request: pytest.FixtureRequest, pool: Processes) -> Executor:
    return Inline() if request.param == "inline" else pool


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


# Whatever the executor


def test_outcomes_in_order_and_exceptions_as_faults(executor: Executor) -> None:
    heard: dict[int, float | None] = {}
    items = [4.0, -1.0, 9.0, 16.0]
    outcomes = executor.map(math.sqrt, items, on_result=lambda i, outcome: heard.update({i: outcome.value}))
    assert [outcome.value for outcome in outcomes] == [2.0, None, 3.0, 4.0]
    faults = [outcome.fault for outcome in outcomes]
    assert faults[1].startswith("ValueError: ")
    assert faults[0] == faults[2] == faults[3] == ""
    assert heard == dict(enumerate([2.0, None, 3.0, 4.0]))
    assert executor.map(math.sqrt, []) == []


def test_results_in_order_or_an_error(executor: Executor) -> None:
    heard: list[tuple[int, int | None]] = []
    found = executor.results(abs, [-3, 2, -1], on_result=lambda i, one: heard.append((i, one.value)))
    assert found == [3, 2, 1]
    assert sorted(heard) == [(0, 3), (1, 2), (2, 1)]
    assert executor.results(print, []) == []
    with pytest.raises(InputError, match=r"bad item \d\n  leave it out"):  # for people: as it was raised
        executor.results(tasks.refuse, [5, 6, 7])
    assert executor.results(abs, [-1]) == [1]


def test_a_state_is_made_once_by_each_worker(executor: Executor, tmp_path: Path) -> None:
    state = State(tasks.noted, (str(tmp_path / "made"),))
    pids = set()
    for _ in range(3):
        found = executor.results(tasks.with_state, range(20), state=state)
        assert [(name, item) for name, item, _ in found] == [("made", i) for i in range(20)]
        pids |= {pid for _, _, pid in found}
    made = [int(line) for line in (tmp_path / "made").read_text().split()]
    assert len(made) == len(set(made)) <= 2
    assert pids <= set(made)


def test_a_state_that_cannot_be_made_is_an_error_of_the_call(executor: Executor) -> None:
    with pytest.raises(InputError, match="no such state"):
        executor.map(tasks.with_state, [1, 2], state=State(tasks.impossible))


def test_answers_come_as_they_are_ready_and_work_ends_when_nobody_listens(pool: Processes) -> None:
    first = next(pool.each(tasks.nap, [3600.0, 0.0, 3600.0]))  # the generator is gone after this line
    assert first[0] == 1
    gc.collect()
    assert pool.results(abs, [-1, -2]) == [1, 2]
    lazily = Inline().each(math.sqrt, [4.0, 9.0])
    assert next(lazily)[1].value == 2.0


def test_a_state_that_is_here_is_used_here_and_made_elsewhere(pool: Processes, tmp_path: Path) -> None:
    state = State(tasks.noted, (str(tmp_path / "made"),), here=tmp_path / "here")
    assert Inline().results(tasks.with_state, [1], state=state) == [("here", 1, os.getpid())]
    assert not (tmp_path / "made").exists()
    assert pool.results(tasks.with_state, [1], state=state)[0][:2] == ("made", 1)
    assert state == State(tasks.noted, state.arguments)


# Processes


def test_a_hang_is_killed_and_the_others_are_served() -> None:
    with Processes(workers=2, seconds=0.5) as pool:
        hung, *short = pool.map(tasks.nap, [3600.0, 0.0, 0.0, 0.0])
        assert hung.fault == "killed after 0.5 s"
        assert [outcome.fault for outcome in short] == [""] * 3
        assert pool.map(tasks.nap, [0.7], seconds=60)[0].fault == ""  # the call's own limit
        with pytest.raises(AnchorError, match=r"a worker process was killed after 0\.2 s"):
            pool.results(tasks.nap, [0.0, 3600.0], seconds=0.2)


def test_a_death_is_reported_and_the_process_replaced(pool: Processes) -> None:
    faults = [outcome.fault for outcome in pool.map(os._exit, [3, 4])]
    assert faults == ["process died with code 3", "process died with code 4"]
    with pytest.raises(AnchorError, match=r"ended unexpectedly \(exit code 3\)\n.*out of memory.*workers=1"):
        pool.results(os._exit, [3])
    assert pool.map(math.sqrt, [4.0])[0].value == 2.0


def test_a_process_killed_in_the_middle_of_an_item_harms_no_other(pool: Processes) -> None:
    victim = None
    outcomes = {}
    working = pool.each(tasks.nap, [0.0, 3600.0, 0.0, 0.0])
    for i, outcome in working:
        outcomes[i] = outcome
        if victim is None:
            (victim,) = [worker for worker in working.gi_frame.f_locals["busy"].values() if worker.item == 1]
            while not victim.started and not victim.pipe.poll():
                time.sleep(0.01)
            victim.process.kill()
    assert sorted(outcomes) == [0, 1, 2, 3]
    assert {i: outcome.fault for i, outcome in outcomes.items() if outcome.fault} == {
        1: "process died with code -9"
    }


def test_an_idle_process_that_died_is_replaced() -> None:
    with Processes(workers=1) as pool:
        (pid,) = pool.results(tasks.pid_of, [0])
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
        assert pool.results(tasks.pid_of, [0]) != [pid]


def test_a_process_that_dies_between_two_items_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody noticed before the next task was on its way."""
    with Processes(workers=1) as pool:
        (pid,) = pool.results(tasks.pid_of, [0])
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
        monkeypatch.setattr(pool._idle[0].process, "poll", lambda: None)
        found = pool.results(tasks.pid_of, [0, 0])
        assert len(found) == 2
        assert pid not in found


def test_processes_start_when_needed_are_kept_and_end_with_the_executor() -> None:
    pool = Processes(workers=3)
    assert pool._idle == []
    pool.results(tasks.nap, [0.5, 0.5])
    assert len(pool._idle) == 2  # no more than items
    (first,), (second,) = (pool.results(tasks.pid_of, [0]) for _ in range(2))
    assert first == second != os.getpid()
    pool.close()
    assert not alive(first)
    (third,) = pool.results(tasks.pid_of, [0])  # closing is not for ever
    del pool
    gc.collect()
    assert not alive(third)


def test_what_workers_print_is_not_among_the_answers(
    pool: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    with Processes(workers=1) as fresh:  # its standard error is the captured one
        assert fresh.results(tasks.talk, [1, 2]) == [1, 2]
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("hello") == 4
    assert pool.results(tasks.read_input, [1]) == [""]


def test_signals_are_left_to_the_parent(pool: Processes) -> None:
    assert pool.results(tasks.interrupt_oneself, [1, 2]) == [1, 2]
    worker = pool._take()  # also before it has begun to run
    os.kill(worker.process.pid, signal.SIGINT)
    pool._idle.append(worker)
    assert pool.results(abs, [-1]) == [1]
    fresh = Processes(workers=1)
    worker = fresh._take()
    os.kill(worker.process.pid, signal.SIGINT)
    fresh._idle.append(worker)
    assert fresh.results(tasks.pid_of, [1]) == [worker.process.pid]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()  # ours are as before


def test_threads_are_the_executors() -> None:
    for threads in (1, 2):
        with Processes(workers=1, threads=threads) as pool:
            assert pool.results(tasks.threads, [0]) == [threads]


def test_tensors_travel_by_value(pool: Processes) -> None:
    """torch makes multiprocessing's own pickler share their memory, which ends with the worker."""
    (found,) = pool.results(torch.neg, [torch.arange(3.0)])
    assert found.tolist() == [0.0, -1.0, -2.0]
    assert not found.is_shared()


def test_large_items_and_answers(pool: Processes) -> None:
    items = [bytes([i]) * 5_000_000 for i in range(6)]
    assert pool.results(bytes, items) == items


def test_what_cannot_be_sent_says_so(pool: Processes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be sent to another process: .*lambda.*\n.*imported"):
        pool.map(lambda item: item, [1])
    with pytest.raises(InputError, match="cannot be sent"):
        pool.map(abs, [threading.Lock()])
    (outcome,) = pool.map(tasks.unsendable, [1])
    assert "pickle" in outcome.fault
    script = tmp_path / "script.py"  # no guard against being imported: workers do not run it again
    script.write_text(
        "from anchor.executors import Processes\n"
        "def mine(item): return item\n"
        "print(Processes(workers=1).results(abs, [-1]))\n"
        "Processes(workers=1).results(mine, [1])\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "[1]\n"
    assert "a worker process could not take its task: AttributeError" in done.stderr
    assert "in a module that can be imported" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("items", ["[0.5, 0.5]", "[0.5, 3600.0]"], ids=["idle", "in the middle of an item"])
def test_workers_end_with_a_parent_that_is_killed(items: str) -> None:
    code = f"""
import sys
import threading
sys.path.append({str(Path(tasks.__file__).parent)!r})
import tasks
from anchor.executors import Processes
pool = Processes(workers=2)
working = pool.each(tasks.nap, {items})
next(working)
workers = [*pool._idle, *working.gi_frame.f_locals["busy"].values()]
print(*[worker.process.pid for worker in workers], flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
    finally:
        parent.kill()
        parent.wait()
    assert all(gone(pid) for pid in pids)


# Which one


def test_one_rule_for_how_many() -> None:
    assert workers_for(1) == cores()
    assert workers_for(10_000) == 1
    assert Processes().workers == cores()
    assert Processes(threads=10_000).workers == 1
    assert isinstance(make_executor(workers=1), Inline)
    assert isinstance(make_executor(workers=1, seconds=1.0), Processes)  # only a process can be killed
    made = make_executor(workers=3, threads=2, seconds=5.0)
    assert isinstance(made, Processes)
    assert (made.workers, made.threads, made.seconds) == (3, 2, 5.0)
    assert isinstance(make_executor("inline", workers=3), Inline)
    assert isinstance(make_executor("processes", workers=1), Processes)
    with pytest.raises(InputError, match="did you mean 'processes'"):
        make_executor("process")


def test_cpu_seconds_of_other_processes_are_counted(pool: Processes) -> None:
    before = pool.cpu_elsewhere
    pool.results(tasks.burn, [0.05, 0.05])
    assert pool.cpu_elsewhere - before >= 0.1
    inline = Inline()
    inline.results(tasks.burn, [0.01])
    assert inline.cpu_elsewhere == 0.0  # it is in this process's own

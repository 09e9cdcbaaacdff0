"""Ray with real clusters of two raylets: answers as in one process, losses made good, hangs killed."""

from __future__ import annotations

import math
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tasks
from ray_cluster import node, small_cluster

from anchor.errors import AnchorError, InputError, MissingDependencyError, Notice
from anchor.executors import Inline, State, Workplace, ray_tasks
from anchor.executors.ray_tasks import RayTasks


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    before = dict(os.environ)
    with small_cluster() as found:
        node(found, labels={"for": "relaxing"})
        yield found
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def ray(cluster: Any) -> Iterator[RayTasks]:
    before = signal.getsignal(signal.SIGTERM)
    with RayTasks(address=cluster.address) as executor:
        assert signal.getsignal(signal.SIGTERM) is before
        yield executor


def test_answers_in_order_exceptions_as_faults(ray: RayTasks) -> None:
    outcomes = ray.map(math.sqrt, [4.0, -1.0, 9.0])
    assert [outcome.value for outcome in outcomes] == [2.0, None, 3.0]
    assert outcomes[1].fault.startswith("ValueError: ")
    with pytest.raises(InputError, match=r"bad item \d\n  leave it out"):
        ray.results(tasks.refuse, [5, 6, 7])
    with pytest.raises(InputError, match="cannot be sent"):
        ray.results(lambda x: x, [1])
    assert ray.results(abs, []) == []


def test_states_are_kept_by_processes_and_threads_are_pinned(ray: RayTasks, tmp_path: Path) -> None:
    state = State(tasks.noted, (str(tmp_path / "made"),))
    for _ in range(2):
        found = ray.results(tasks.with_state, range(6), state=state)
        assert [(name, item) for name, item, _ in found] == [("made", i) for i in range(6)]
    made = (tmp_path / "made").read_text().split()
    assert len(made) == len(set(made)) <= 2
    with pytest.raises(InputError, match="no such state"):
        ray.map(tasks.with_state, [1], state=State(tasks.impossible))
    assert ray.results(tasks.threads, [0]) == [1]


def test_arrays_may_be_written_to_there_and_here(ray: RayTasks) -> None:
    given = np.arange(100_000.0)  # large enough for Ray's shared memory, which is read-only
    (back,) = ray.results(tasks.doubled_in_place, [given])
    back += 1
    np.testing.assert_array_equal(back, 2 * np.arange(100_000.0) + 1)
    np.testing.assert_array_equal(given, np.arange(100_000.0))


def test_a_killed_process_is_replaced_and_its_task_done_again(ray: RayTasks, tmp_path: Path) -> None:
    found = ray.results(tasks.die_once, [(str(tmp_path / "died"), i) for i in range(4)])
    assert found == [0, 1, 4, 9]
    assert (tmp_path / "died").exists()


def test_a_task_that_kills_every_process_ends(ray: RayTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_tasks, "RETRIES", 1)
    (outcome,) = ray.map(os._exit, [3])
    assert outcome.fault == "lost 2 times: WorkerCrashedError"
    assert ray.results(abs, [-1]) == [1]


def test_a_hang_is_killed_and_its_neighbours_are_served(ray: RayTasks) -> None:
    hung, short = ray.map(tasks.nap, [3600.0, 0.0], seconds=0.5)
    assert hung.fault == "killed after 0.5 s"
    assert short.fault == ""


def test_labels_choose_machines(ray: RayTasks, cluster: Any) -> None:
    with RayTasks(address=cluster.address, labels={"for": "relaxing"}) as chosen:
        assert len(set(chosen.results(tasks.node_of, range(3)))) == 1
    assert ray._room() == 2 * ray_tasks.AHEAD
    with pytest.warns(Notice, match="no machine of the cluster has what a task needs .*for=dreaming"):
        assert RayTasks(labels={"for": "dreaming"})._room() == ray_tasks.AHEAD
    with pytest.warns(Notice, match=r"0\.5 GPUs"):
        RayTasks(gpus=0.5)._room()


def test_who_stops_listening_stops_the_work(ray: RayTasks) -> None:
    working = ray.each(tasks.nap, [0.0, 3600.0])
    assert next(working)[0] == 0
    working.close()
    assert sorted(ray.results(abs, [-1, -2])) == [1, 2]  # the process that slept is free


def test_a_lost_machine_costs_nothing_but_time(ray: RayTasks, cluster: Any) -> None:
    third = node(cluster)
    working = ray.each(tasks.nap_square, [(2.0, i) for i in range(6)])
    found = dict([next(working)])
    os.kill(third.all_processes["raylet"][0].process.pid, signal.SIGKILL)
    found |= dict(working)
    assert {i: outcome.value for i, outcome in found.items()} == {i: i**2 for i in range(6)}


def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="only the executor 'ray'"):
        Workplace("processes", address="auto")
    with pytest.raises(InputError, match="did you mean 'ray'"):
        Workplace("rays")
    assert Workplace(address="auto").executor == "ray"
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(ray_tasks, "find_spec", lambda _name: None)
    with pytest.raises(MissingDependencyError, match=r"anchor-crystals\[ray\]"):
        Workplace("ray").open()
    assert isinstance(Workplace("inline").open(), Inline)


def test_a_token_that_others_can_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ray_tasks.warn_of_open_token()  # none is there
        token.touch(mode=0o600)
        ray_tasks.warn_of_open_token()
    token.chmod(0o640)
    with pytest.warns(Notice, match="chmod 600"):
        ray_tasks.warn_of_open_token()


def test_other_versions_are_refused(ray: RayTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchor.__version__", "0.0.0")
    with pytest.raises(AnchorError, match=r"has anchor .*, not 0\.0\.0"):
        ray.results(abs, [1])

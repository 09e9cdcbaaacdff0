"""The pool with real processes: order kept, hangs killed, deaths and exceptions reported, work goes on."""

import math
import os
import time

import pytest

from anchor.executors.killable import KillablePool


@pytest.fixture
def pool():
    with KillablePool(workers=2, seconds=60) as pool:
        yield pool


def test_results_in_order_and_exceptions_as_faults(pool: KillablePool) -> None:
    outcomes = pool.map(math.sqrt, [4.0, -1.0, 9.0, 16.0])
    assert [outcome.value for outcome in outcomes] == [2.0, None, 3.0, 4.0]
    assert [outcome.fault for outcome in outcomes] == ["", "ValueError: math domain error", "", ""]
    assert pool.map(math.sqrt, []) == []


def test_a_hang_is_killed_and_the_next_item_is_served() -> None:
    with KillablePool(workers=1, seconds=0.5) as pool:
        hung, short = pool.map(time.sleep, [3600.0, 0.0])
        assert hung.fault == "killed after 0.5 s"
        assert short.fault == ""


def test_a_dead_process_is_reported_and_replaced(pool: KillablePool) -> None:
    (dead,) = pool.map(os._exit, [3])
    assert dead.fault == "process died with code 3"
    (alive,) = pool.map(math.sqrt, [4.0])
    assert alive.value == 2.0


def test_processes_are_kept_between_calls_and_gone_after_closing(pool: KillablePool) -> None:
    first = pool.map(eval, ["__import__('os').getpid()"])[0].value
    second = pool.map(eval, ["__import__('os').getpid()"])[0].value
    assert first == second
    assert first not in (None, os.getpid())
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)

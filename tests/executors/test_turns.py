"""Threads that share an executor: one computes here at a time, waiting ones are in nobody's way."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tasks

from anchor.executors import AbandonedError, Inline, Processes, Turns


def test_one_thread_computes_at_a_time_and_none_while_it_waits() -> None:
    inside, most = 0, 0
    with Turns(Processes(workers=1)) as turns, ThreadPoolExecutor(3) as pool:

        def compute(number: int) -> list[int]:
            nonlocal inside, most
            with turns.mine():
                found = []
                for items in ([number], [-number, 2]):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.01)
                    inside -= 1
                    found += turns.results(abs, items)
                return found

        answers = list(pool.map(compute, range(4)))
    assert answers == [[n, n, 2] for n in range(4)]
    assert most == 1


def test_a_turn_is_given_away_while_workers_work(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    with Turns(Processes(workers=1)) as turns, ThreadPoolExecutor(1) as pool:

        def wait() -> list[bool]:
            with turns.mine():
                return turns.results(tasks.wait_for, [str(gate)])

        waiting = pool.submit(wait)
        while not turns._alone.locked():
            time.sleep(0.01)
        with turns.mine():  # its worker waits for what only we do
            gate.touch()
        assert waiting.result() == [True]


def test_who_is_abandoned_gives_up_at_the_next_answer() -> None:
    turns = Turns(Inline())
    working = turns.each(abs, [-1, -2, -3])
    assert next(working)[1].value == 1
    turns.abandoned = True
    with pytest.raises(AbandonedError):
        next(working)
    turns.abandoned = False
    assert turns.results(abs, [-4]) == [4]  # and nobody is left waiting

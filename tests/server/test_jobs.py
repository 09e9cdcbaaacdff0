"""Searches as processes: arguments are a list, stopping is Ctrl-C, and limits are checked before."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from anchor.errors import AnchorError, InputError
from anchor.server.jobs import MOST_RUNNING, Jobs, SearchRequest

STUBBORN = """
import signal, sys, time
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
print("args", sys.argv[1:], flush=True)
while len(asked) < 2:
    time.sleep(0.01)
    if len(asked) == 1: print("finishing", flush=True); asked.append(0)
print("stored", flush=True)
"""
"""A process that ends well after Ctrl-C, as a search does."""


def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen within half a minute")


def jobs(folder: Path) -> Jobs:
    return Jobs(folder / "logs", folder, (sys.executable, "-c", STUBBORN))


def test_a_search_gets_its_arguments_and_stops_by_ctrl_c(tmp_path: Path) -> None:
    running = jobs(tmp_path)
    job = running.start("a", ["search", "--out", "x; touch evil", "$(touch evil)"])
    until(lambda: "args" in job.status()["log"])
    assert job.status()["state"] == "running"
    with pytest.raises(AnchorError, match="runs already"):
        running.start("a", ["search"])
    assert running.stop("a").status()["state"] == "stopping"
    until(lambda: not job.running)
    status = job.status()
    assert (status["state"], status["code"]) == ("ended", 0)
    assert "'x; touch evil', '$(touch evil)'" in status["log"], "no shell has seen it"
    assert "stored" in status["log"]
    assert not (tmp_path / "evil").exists()
    with pytest.raises(InputError, match="runs no such search"):
        running.stop("a")
    running.start("a", ["resume"])  # again, now that it has ended
    running.stop_all()
    assert running.asked == ["a"]


def test_a_search_that_still_loads_can_be_stopped_below_a_page_in_the_background(tmp_path: Path) -> None:
    """What a shell starts in the background ignores SIGINT, and so do its children: the stop was lost."""
    running = Jobs(tmp_path / "logs", tmp_path)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = running.start("a", ["search", "-n", "100000", "--workers", "1", "--out", "run"])
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: "loading reference" in job.status()["log"])
    running.stop("a")
    until(lambda: not job.running)
    assert job.status()["code"] == 1
    assert "interrupted" in job.status()["log"]


def test_a_search_goes_on_as_it_was_wished(tmp_path: Path) -> None:
    """Finds that were not wanted are not relaxed and attacked after Resume and Stop."""
    running = jobs(tmp_path)
    assert running.wishes("a") == []
    wish = SearchRequest(name="a", structures=64, finds=0, verify=3)
    for arguments in (wish.arguments(tmp_path / "a"), ["resume", "a", "--finds", "0", "--verify", "3"]):
        job = running.start("a", arguments)
        until(lambda job=job: "args" in job.status()["log"])
        running.stop("a")
        job.process.wait(30)
        assert running.wishes("a") == ["--finds", "0", "--verify", "3"]


def test_not_more_than_the_machine_bears(tmp_path: Path) -> None:
    running = jobs(tmp_path)
    started = [running.start(str(i), []) for i in range(MOST_RUNNING)]
    with pytest.raises(AnchorError, match="searches run already"):
        running.start("one too many", [])
    for job in started:
        until(lambda job=job: "args" in job.status()["log"])
    running.stop_all()
    for job in started:
        job.process.wait(30)


def test_limits_become_arguments() -> None:
    wish = SearchRequest(elements=["Na", "Mn", "O"], must_contain=["Na"], k=[3], structures=7, seed=5)
    arguments = wish.arguments(Path("runs/x"))
    assert arguments[:3] == ["search", "--out", "runs/x"]
    pairs = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert pairs["--elements"] == "Na,Mn,O"
    assert pairs["--must-contain"] == "Na"
    assert pairs["-n"] == "7"
    assert "--exclude" not in pairs


@pytest.mark.parametrize(
    "wish",
    [{"elements": ["--config"]}, {"elements": ["Xx"]}, {"structures": 0}, {"source": "evil"}, {"k": []},
     {"name": "x" * 100}, {"unknown": 1}, {"seed": -1}, {"max_atoms": 21}],
)  # fmt: skip
def test_wrong_wishes_are_refused(wish: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SearchRequest.model_validate(wish)


@pytest.mark.parametrize(
    "wish",
    [{"k": [5]}, {"elements": ["Na"]}, {"must_contain": ["Na"], "exclude": ["Na"]},
     {"must_contain": ["Li"], "elements": ["Na", "O"]}, {"must_contain": ["Li", "Na", "K"], "k": [2]},
     {"elements": ["Na", "Cl", "Br"], "k": [2, 3, 4], "source": "neutral"}],
)  # fmt: skip
def test_impossible_limits_are_refused_before_anything_starts(wish: dict[str, object]) -> None:
    with pytest.raises(InputError):
        SearchRequest.model_validate(wish).check()

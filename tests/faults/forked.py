"""`anchor` in processes of its own, forked from one that has imported and read everything: quick and real."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process with threads must not fork
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

MEMORY = 12 * 2**30
"""Bytes of address space of a command: an absurd count must not take the machine with it."""


def warm_up() -> None:
    """Import and read what commands share, once for all forked processes."""
    import anchor.cli.main
    import anchor.evaluate.run
    import anchor.report.html
    import anchor.search.finds  # noqa: F401
    from anchor.config import load_config
    from anchor.paths import cache_dir
    from anchor.search.environment import Environment

    os.environ["ANCHOR_CACHE"] = str(cache_dir())
    Environment.load(load_config(overrides=["run.workers=1"]).config).identity()


def start(words: list[str], folder: Path, output: Path, *, before: Callable[[], object] | None = None) -> int:
    """Begin a command line in a folder; what it prints goes to a file. Returns the process's id.

    The first word may say more: env:NAME=VALUE,… or stdout:closed or stdout:full. `before` is done in the new
    process. A folder named cache in it is laid over the real one.
    """
    child = os.fork()
    if child == 0:
        _become(list(words), folder, output, before)
    return child


def wait(child: int, seconds: float) -> int | None:
    """The exit code, a signal as a negative one; None when it took too long and was killed with its own."""
    code = pause(child, seconds)
    if code is None:
        kill(child)
    return code


def pause(child: int, seconds: float) -> int | None:
    """The exit code, or None if a process goes on after so many seconds.

    Time in which it wanted to compute and others had the processors does not count.
    """
    end = time.monotonic() - queued(child) + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - queued(child) > end:
            return None
        time.sleep(0.01)


def queued(process: int) -> float:
    """Seconds that a process was ready to run and waited for a processor; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def kill(child: int) -> None:
    """SIGKILL for a process and all that it started."""
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _become(words: list[str], folder: Path, output: Path, before: Callable[[], object] | None) -> None:
    """Be the command; does not return."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal; a shell's `&` ignores it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    file = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (folder / "cache").is_dir():
        _lay_over(Path(os.environ["ANCHOR_CACHE"]), folder / "cache")
        os.environ["ANCHOR_CACHE"] = str(folder / "cache")
    _surroundings(words)
    sys.path.insert(0, str(folder))  # own objectives are imported from where one is
    sys.argv = ["anchor", *words]
    from anchor.cli import main

    code = 0
    try:
        if before is not None:
            before()
        main.run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # as Python itself would show it
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # as Python ends when its last words cannot be written
            code = 120
            os.write(2, b"Traceback (most recent call last): at exit\n")
    os._exit(code & 0xFF)


def _surroundings(words: list[str]) -> None:
    first = words[0]
    if first.startswith(("env:", "stdout:")):
        words.pop(0)
    if first.startswith("env:"):
        os.environ.update(pair.split("=") for pair in first[4:].split(","))
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding=os.environ.get("PYTHONIOENCODING", "utf-8"))  # type: ignore[union-attr]
    if first == "stdout:closed":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    if first == "stdout:full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    if first.startswith("stdout:"):  # the parent's stream knew a file
        sys.stdout = os.fdopen(1, "w", closefd=False)


def _lay_over(real: Path, cache: Path) -> None:
    """Copy what the real cache has and this one has not."""
    for path in real.rglob("*"):
        place = cache / path.relative_to(real)
        if path.is_file() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)

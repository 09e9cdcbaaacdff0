"""What executors are asked to do in tests: worker processes import it from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from anchor.errors import InputError


def pid_of(_: object) -> int:
    return os.getpid()


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def noted(path: str) -> Path:
    """A state whose making leaves a line in a file."""
    with Path(path).open("a") as file:
        print(os.getpid(), file=file)
    return Path(path)


def with_state(state: Path, item: int) -> tuple[str, int, int]:
    return state.name, item, os.getpid()


def impossible() -> None:
    raise InputError("no such state", "take another")


def refuse(item: int) -> int:
    raise InputError(f"bad item {item}", "leave it out")


def talk(item: int) -> int:
    """As packages do that print: with and without Python."""
    print("hello", flush=True)
    os.system("echo hello from a child")  # noqa: S605
    return item


def read_input(_: int) -> str:
    return os.read(0, 100).decode()


def interrupt_oneself(item: int) -> int:
    """As Ctrl-C in the terminal, which reaches all processes."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    return item


def threads(_: int) -> int:
    import torch

    return torch.get_num_threads()


def unsendable(_: int) -> object:
    return lambda: None


def burn(seconds: float) -> float:
    """Spends this much CPU time."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return seconds

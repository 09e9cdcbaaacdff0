"""What executors are asked to do in tests: worker processes import it from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from anchor.errors import InputError


def pid_of(_: object) -> int:
    return os.getpid()


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def nap_square(task: tuple[float, int]) -> int:
    time.sleep(task[0])
    return task[1] ** 2


def wait_for(path: str) -> bool:
    while not Path(path).exists():
        time.sleep(0.01)
    return True


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


def doubled_in_place(array: np.ndarray) -> np.ndarray:
    array *= 2
    return array


def die_once(task: tuple[str, int]) -> int:
    """The square of a number; whoever comes first is killed, as by the kernel when memory is short."""
    path, number = task
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return number**2
    os.kill(os.getpid(), signal.SIGKILL)
    return -1


def node_of(_: int) -> str:
    """Which machine of a Ray cluster did it."""
    time.sleep(1)  # so that one machine does not do it all before the other is asked
    import ray

    return ray.get_runtime_context().get_node_id()

"""What a worker does with a task, and a process that does so until its parent is gone.

`anchor.executors.processes` starts such processes; Ray's own (`anchor.executors.ray_tasks`) use `work` alone.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from anchor.errors import AnchorError
from anchor.executors.base import IMPORTABLE, Done, State


def end_with(parent: int) -> None:
    """End at once when the parent process is gone, in the middle of an item, too."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def serve(pipe: Connection) -> None:
    """Say of every task that it begins, and what became of it."""
    made: dict[State, Any] = {}
    while True:
        message = pipe.recv_bytes()
        pipe.send_bytes(work(message, made, lambda: pipe.send_bytes(pickle.dumps(("started", None)))))


def work(message: bytes, made: dict[State, Any], begins: Callable[[], object]) -> bytes:
    """Do one task: its outcome ("done"), or why it could not be taken ("broken"), pickled.

    Args:
        message: (function, item, state), pickled. Unpickled arrays are this process's own: they may be
            written to.
        made: States of this process.
        begins: Called when the task was read and its state is there.
    """
    try:  # imports what the task needs, and may load weights: not on the clock
        function, item, state = pickle.loads(message)  # noqa: S301  # of our own parent or cluster
        given = () if state is None else (state.value(made),)
    except Exception as error:  # who asked raises it
        return pickle.dumps(("broken", failed("could not take its task", error, IMPORTABLE)))
    begins()
    began = time.process_time()
    try:
        done = Done(function(*given, item), cpu_seconds=time.process_time() - began)
        return pickle.dumps(("done", done), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # the border of the process: reported, never swallowed
        fault = replace(failed("failed", error), cpu_seconds=time.process_time() - began)
        return pickle.dumps(("done", fault))


def failed(what: str, error: Exception, hint: str | None = None) -> Done[Any]:
    """The outcome of an exception; one that is meant for people stays what it is."""
    fault = f"{type(error).__name__}: {error}"
    if not isinstance(error, AnchorError):
        error = AnchorError(f"a worker process {what}: {fault}", hint)
    return Done(fault=fault, error=error)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    warnings.simplefilter("ignore")  # the parent's filters are not known here, and no one reads these
    with suppress(EOFError, ConnectionError):  # the parent is gone
        serve(Connection(int(sys.argv[1])))

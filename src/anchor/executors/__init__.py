"""Where work is done: in this process, on several, later on several machines. The answers are the same.

with make_executor(workers=4, seconds=300) as executor:
    outcomes = executor.map(function, items)  # [Done(value=..., fault=""), ...]
"""

from anchor.errors import InputError, nearest
from anchor.executors.base import Done, Executor, State, cores, workers_for
from anchor.executors.inline import Inline
from anchor.executors.processes import Processes

__all__ = ["Done", "Executor", "Inline", "Processes", "State", "cores", "make_executor", "workers_for"]


def make_executor(
    name: str | None = None, workers: int | None = None, threads: int = 1, seconds: float | None = None
) -> Executor:
    """An executor by its name: "inline" or "processes"; None: processes, if several or with a limit.

    Args:
        workers: Processes; None: as many as there are cores for.
        threads: Of the numerical libraries in each process; those of this one are left as they are.
        seconds: Limit for each item, unless a call says otherwise. `Inline` cannot keep to one.
    """
    workers = workers or workers_for(threads)
    name = name or ("inline" if workers == 1 and seconds is None else "processes")
    if name == "inline":
        return Inline()
    if name == "processes":
        return Processes(workers=workers, threads=threads, seconds=seconds)
    raise InputError(f"unknown executor '{name}'", nearest(name, ("inline", "processes")))

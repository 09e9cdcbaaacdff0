"""Where work is done: in this process, on several, on several machines. The answers are the same.

with Workplace(workers=4).open(seconds=300) as executor:
    outcomes = executor.map(function, items)  # [Done(value=..., fault=""), ...]
"""

from anchor.executors.base import Done, Executor, State, cores, workers_for
from anchor.executors.inline import Inline
from anchor.executors.processes import Processes
from anchor.executors.turns import AbandonedError, Turns
from anchor.executors.workplace import ANYWHERE, Workplace, make_executor

__all__ = [
    "ANYWHERE",
    "AbandonedError",
    "Done",
    "Executor",
    "Inline",
    "Processes",
    "State",
    "Turns",
    "Workplace",
    "cores",
    "make_executor",
    "workers_for",
]

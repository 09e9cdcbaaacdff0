"""Which executor: one description for settings, options of the command line and functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anchor.errors import InputError, nearest
from anchor.executors.base import Executor, workers_for
from anchor.executors.inline import Inline
from anchor.executors.processes import Processes

NAMES = ("inline", "processes", "ray")


@dataclass(frozen=True)
class Workplace:
    """Where work is to be done. Results do not depend on it, but for the kind of processor.

    Attributes:
        executor: "inline", "processes" or "ray"; None: Ray with an address, else processes if several.
        workers: Processes, or tasks of Ray at a time; None: as many as there are cores for.
        address: Of a Ray cluster; None: Ray on this machine alone.
        gpus: GPUs of each task of Ray, 0.25: four share one; 0: tasks use CPUs.
        labels: Only machines of the cluster with these.
    """

    executor: str | None = None
    workers: int | None = None
    address: str | None = None
    gpus: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = self.executor or ("ray" if self.address is not None else None)
        if name is not None and name not in NAMES:
            raise InputError(f"unknown executor '{name}'", nearest(name, NAMES))
        given = {"address": self.address, "gpus": self.gpus, "labels": self.labels}
        if name != "ray" and (of_ray := [option for option, value in given.items() if value]):
            raise InputError(
                f"{', '.join(of_ray)}: only the executor 'ray' has it", "add --executor ray, or leave it out"
            )
        object.__setattr__(self, "executor", name)

    def open(self, *, threads: int = 1, seconds: float | None = None) -> Executor:
        """The executor.

        Args:
            threads: Of the numerical libraries in each process; those of this one are left as they are.
            seconds: Limit for each item, unless a call says otherwise. `Inline` cannot keep to one.
        """
        if self.executor == "ray":
            from anchor.executors.ray_tasks import RayTasks

            return RayTasks(
                address=self.address,
                workers=self.workers,
                threads=threads,
                seconds=seconds,
                gpus=self.gpus,
                labels=self.labels,
            )
        workers = self.workers or workers_for(threads)
        if self.executor == "inline" or (self.executor is None and workers == 1 and seconds is None):
            return Inline()
        return Processes(workers=workers, threads=threads, seconds=seconds)


ANYWHERE = Workplace()
"""This machine, as many processes as there are cores for."""


def make_executor(
    name: str | None = None,
    workers: int | None = None,
    *,
    threads: int = 1,
    seconds: float | None = None,
    **of_ray: Any,
) -> Executor:
    """An executor by its name; arguments as those of `Workplace` and `Workplace.open`."""
    return Workplace(name, workers, **of_ray).open(threads=threads, seconds=seconds)

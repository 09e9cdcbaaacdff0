"""Work on a Ray cluster, or on a Ray of this machine alone: `pip install 'anchor-crystals[ray]'`.

Every item is a task without memory, which Ray does again elsewhere when its process or machine is lost; what
a state makes is kept by the process, not by an actor: actors of a lost machine wait for a place of their own.
The cluster belongs to its owner: we connect and disconnect, and end nothing that we did not start.

Everyone who may join a cluster may run code on it, so tokens are on (RAY_AUTH_MODE=token) unless the
environment says otherwise, and pickles from it are as trustworthy as the token is secret.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anchor
from anchor.errors import AnchorError, InputError, MissingDependencyError, Notice
from anchor.executors.base import Call, Done, Executor, R, State, environment, pickled, workers_for
from anchor.executors.processes import Processes
from anchor.executors.worker import failed, work

RETRIES = 5
"""Times that a task is done again after its process or machine was lost. Each loss of a machine costs one; a
task that kills its process every time must end at last. (What Ray itself ends for want of memory does not
count.)"""
AHEAD = 2
"""Tasks handed over for each processor of the cluster: nobody waits for us, and others have their turn."""
LOOK_AGAIN = 5.0
"""Seconds after which machines that joined or left are counted again."""
STORE_BYTES = 200_000_000
"""Ray's shared memory on a machine of ours: tasks and answers have kilobytes."""
_WAY_OUT = "see Ray's own logs (/tmp/ray/session_latest/logs); what was done before is kept: resume"


class RayTasks(Executor):
    """Tasks of a Ray cluster.

    Args:
        address: "auto" or HOST:PORT of a cluster, which this machine must belong to; None: that of
            RAY_ADDRESS, or a Ray of this machine, which ends with this object.
        workers: Tasks at a time, at most; None: as many as the cluster has processors for.
        threads: Of the numerical libraries in each, and processors that it takes.
        seconds: Limit for each item, unless a call says otherwise.
        gpus: GPUs of each task; 0.25: four share one.
        labels: Only on machines with these labels (`ray start --labels`).
    """

    shared = True

    def __init__(
        self,
        *,
        address: str | None = None,
        workers: int | None = None,
        threads: int = 1,
        seconds: float | None = None,
        gpus: float = 0.0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if find_spec("ray") is None:
            raise MissingDependencyError(
                "the executor 'ray' needs Ray", "pip install 'anchor-crystals[ray]', or --executor processes"
            )
        self.address, self.workers, self.threads, self.seconds = address, workers, threads, seconds
        self.gpus, self.labels = gpus, dict(labels or {})
        self._ours = False
        self._environment = {"env_vars": environment(threads)}
        self._connect()

    def _connect(self) -> None:
        """Join the cluster, unless this process is in one."""
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # before the import, which reads it
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        if ray.is_initialized():
            return
        warn_of_open_token()
        settings: dict[str, Any] = {"address": self.address}
        if self.address is None and "RAY_ADDRESS" not in os.environ:
            settings = {
                "address": "local",
                "num_cpus": self.threads * (self.workers or workers_for(self.threads)),
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
            }
        elif (self.address or os.environ["RAY_ADDRESS"]).startswith("ray://"):
            raise InputError(
                "Ray's client (ray://) is not supported", "start anchor on a machine of the cluster"
            )
        try:
            with _handlers_kept():
                ray.init(
                    **settings,
                    log_to_driver=False,  # what a package prints there is not our output
                    logging_level=logging.ERROR,
                    runtime_env=self._environment,
                )
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            where = self.address or os.environ.get("RAY_ADDRESS") or "this machine"
            raise AnchorError(
                f"no Ray cluster at '{where}': {str(error).strip().splitlines()[0]}",
                "start one (ray start --head --block) with the same token, or leave --address out",
            ) from None
        self._ours = True

    def each(
        self,
        function: Call[R],
        items: Sequence[Any],
        *,
        state: State | None = None,
        seconds: float | None = None,
    ) -> Generator[tuple[int, Done[R]], None, None]:
        import ray

        self._connect()
        limit = next((given for given in (seconds, self.seconds) if given is not None), None)
        remote = self._remote()
        waiting = deque(enumerate(items))
        pending: dict[Any, int] = {}
        room, looked = self._room(), time.monotonic()
        try:
            while waiting or pending:
                while waiting and len(pending) < room:
                    i, item = waiting.popleft()
                    task = pickled(function, item, state)
                    pending[remote.remote(task, anchor.__version__, self.threads, limit)] = i
                ready, _ = ray.wait(list(pending), num_returns=1, timeout=LOOK_AGAIN)
                if ready:  # and whoever else is
                    ready, _ = ray.wait(list(pending), num_returns=len(pending), timeout=0)
                for ref in ready:
                    i, outcome = pending.pop(ref), _fetched(ref)
                    self.cpu_elsewhere += outcome.cpu_seconds
                    yield i, outcome
                if time.monotonic() - looked > LOOK_AGAIN:
                    room, looked = self._room(), time.monotonic()
        finally:  # what still works has no one left to report to
            if ray.is_initialized():
                for ref in pending:
                    ray.cancel(ref, force=True)

    def _remote(self) -> Any:
        import ray

        wishes: dict[str, Any] = {"num_cpus": self.threads, "max_retries": RETRIES, "num_gpus": self.gpus}
        if self.labels:
            wishes["label_selector"] = self.labels
        if not self._ours:
            wishes["runtime_env"] = self._environment
        return ray.remote(**wishes)(do_task)

    def _room(self) -> int:
        """Tasks that may be under way: of ours, so that others have their turn, too."""
        import ray

        fits = [node["Resources"] for node in ray.nodes() if node["Alive"] and self._suits(node)]
        places = sum(
            int(min(has.get("CPU", 0) / self.threads, has.get("GPU", 0) / self.gpus if self.gpus else 1e9))
            for has in fits
        )
        if places < 1:
            wanted = f"{self.threads} CPUs" + (f", {self.gpus:g} GPUs" if self.gpus else "")
            labels = "".join(f", {name}={value}" for name, value in self.labels.items())
            text = f"no machine of the cluster has what a task needs ({wanted}{labels}); waiting for one"
            warnings.warn(text, Notice, stacklevel=3)
        return self.workers or AHEAD * max(places, 1)

    def _suits(self, node: Mapping[str, Any]) -> bool:
        has = node.get("Labels") or {}
        return all(has.get(name) == value for name, value in self.labels.items())

    def close(self) -> None:
        if self._ours:
            import ray

            self._ours = False
            with _handlers_kept():
                ray.shutdown()


def do_task(task: bytes, version: str, threads: int, seconds: float | None) -> bytes:
    """One task in a process of Ray: what `anchor.executors.worker.work` answers.

    With a limit a process of our own does it, which can be killed and leaves this one with its states.
    """
    warnings.simplefilter("ignore")  # no one reads them here
    if version != anchor.__version__:
        error = AnchorError(
            f"a machine of the cluster has anchor {anchor.__version__}, not {version}",
            "install the same everywhere",
        )
        return pickle.dumps(("broken", failed("", error)))
    if seconds is None:
        return work(task, _states(), lambda: None)
    function, item, state = pickle.loads(task)  # noqa: S301  # of our own cluster
    try:
        (outcome,) = _killable(threads).map(function, [item], state=state, seconds=seconds)
    except AnchorError as error:
        return pickle.dumps(("broken", failed("", error)))
    return pickle.dumps(("done", outcome), pickle.HIGHEST_PROTOCOL)


@cache
def _states() -> dict[State, Any]:
    """What this process has made: it is used again by later tasks."""
    return {}


@cache
def _killable(threads: int) -> Processes:
    return Processes(workers=1, threads=threads)


def _fetched(ref: Any) -> Done[Any]:
    """The outcome of a finished task.

    Raises:
        AnchorError: It could not be taken: nobody else could do it either.
    """
    import ray
    from ray import exceptions

    try:
        kind, outcome = pickle.loads(ray.get(ref))  # noqa: S301  # of our own cluster
    except (exceptions.RuntimeEnvSetupError, exceptions.RayTaskError) as error:
        raise AnchorError(
            f"a process of Ray could not start: {_last_line(error)}",
            "install the same anchor and Python on every machine of the cluster",
        ) from None
    except exceptions.RayError as error:
        fault = f"lost {1 + RETRIES} times: {type(error).__name__}"
        lost = AnchorError(f"a task on Ray was lost {1 + RETRIES} times: {_last_line(error)}", _WAY_OUT)
        return Done(fault=fault, error=lost)
    if kind == "broken":
        raise outcome.error
    return outcome


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray sets handlers of its own; what SIGINT and SIGTERM do here is not its business."""
    try:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def warn_of_open_token() -> None:
    """Say so if others on this machine can read the file with the cluster's token, and so run code on it."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if os.name == "posix" and path.is_file() and path.stat().st_mode & 0o077:
        warnings.warn(f"others can read the token of the Ray cluster: chmod 600 {path}", Notice, stacklevel=2)

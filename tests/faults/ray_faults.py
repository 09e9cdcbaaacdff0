"""Campaigns on a Ray cluster with bad days: processes and machines killed, memory short, late machines.

    python tests/faults/ray_faults.py [--only worker|raylet|head|driver|memory|late|shared]

Every case starts machines (`ray start --block`, several on this one) with a token of their own and a campaign
on them, does harm in the middle of a step, and lets the campaign go on or resumes it. Afterwards the ledger
must be, bit for bit, that of the same campaign in one process: nothing lost, nothing counted twice. The exit
code is 0 if all cases are good.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import forked
import psutil
from trials import answered, content

SEARCH = (
    "search --preset default --source neutral --elements Na,Mg,O,F,Cl --k 2,3 --max-atoms 8 -n 48 --finds 0 "
    "--verify 0 --set grpo.group_size=16 --set relax.max_steps=30 --set relax.chunk_atoms=12 --out run"
)
RESUME = "resume run --finds 0 --verify 0"
LIMIT = 900.0
"""Seconds until something hangs; a case takes about thirty on a quiet machine."""
QUICK = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "20000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
}
"""A lost machine is noticed in seconds, not in minutes; one that starts slowly is waited for."""
BALLAST = 3 * 2**30
"""Bytes that we hold so that memory is short, and give back."""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Machines:
    """A cluster on this machine, by the commands that people use."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.folder, self.environment = folder, {**os.environ, **QUICK, **settings}
        self.processes: list[subprocess.Popen[bytes]] = []

    def head(self, cpus: int = 1) -> psutil.Process:
        port = self.address.rpartition(":")[2]
        temp = f"--temp-dir={self.folder / 'ray'}"
        return self._start("--head", f"--port={port}", "--include-dashboard=false", temp, cpus=cpus)

    def join(self, cpus: int = 1) -> psutil.Process:
        return self._start(f"--address={self.address}", cpus=cpus)

    def _start(self, *words: str, cpus: int) -> psutil.Process:
        log = (self.folder / f"machine-{len(self.processes)}.log").open("wb")
        command = [Path(sys.executable).with_name("ray"), "start", "--block", *words, f"--num-cpus={cpus}"]
        command += ["--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats"]
        self.processes.append(
            subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        )
        until(lambda: "Ray runtime started" in Path(log.name).read_text(), "a machine starts")
        return psutil.Process(self.processes[-1].pid)

    def named(self, name: str) -> list[psutil.Process]:
        """Processes of the cluster whose title begins so."""
        found = []
        for machine in self.processes:
            found += [p for p in family(machine.pid) if title(p).startswith(name)]
        return found

    def end(self) -> None:
        for machine in self.processes:
            for process in family(machine.pid):
                kill(process)
            machine.wait()


def family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return []


def title(process: psutil.Process) -> str:
    try:
        return Path((process.cmdline() or [process.name()])[0]).name
    except psutil.NoSuchProcess:
        return ""


def kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waiting until {what}")
        time.sleep(0.05)


class Trial:
    """One campaign in a folder of its own."""

    def __init__(self, place: Path, name: str, seed: int = 1) -> None:
        self.seed, self.folder = str(seed), place / f"{name}-{seed}"
        self.folder.mkdir()
        self.output = place / f"{name}-{seed}.log"
        self.output.touch()

    def start(self, words: str, address: str | None) -> int:
        """The campaign's process."""
        where = "--executor inline" if address is None else f"--address {address} --workers 4"
        seed = f"--seed {self.seed}" if words is SEARCH else ""
        return forked.start(f"{words} {seed} {where}".split(), self.folder, self.output)

    def finish(self, child: int) -> str:
        """What is wrong with its end, '' if nothing is."""
        return answered(forked.wait(child, LIMIT), self.output.read_text(errors="replace"))

    def steps(self) -> int:
        import sqlite3

        try:
            with sqlite3.connect(f"file:{self.folder / 'run' / 'ledger.db'}?mode=ro", uri=True) as ledger:
                return int(ledger.execute("SELECT count(*) FROM steps").fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    def verdict(self, truth: Trial) -> str:
        same = content(self.folder / "run") == content(truth.folder / "run")
        return "" if same else "the ledger is another one"


@contextmanager
def cluster(place: Path, **settings: str) -> Iterator[Machines]:
    folder = Path(tempfile.mkdtemp(dir=place))
    machines = Machines(folder, **settings)
    try:
        yield machines
    finally:
        machines.end()
        shutil.rmtree(folder, ignore_errors=True)


def busy_after_a_step(trial: Trial, machines: Machines) -> psutil.Process:
    """A process in the middle of a part of the second step."""
    until(trial.steps, "the first step is stored")
    until(lambda: machines.named("ray::do_task"), "a process of Ray works")
    return machines.named("ray::do_task")[0]


def worker(place: Path, truth: Trial, machines: Machines) -> str:
    """A worker process is killed twice, in the middle of a part."""
    trial = Trial(place, "worker")
    child = trial.start(SEARCH, machines.address)
    until(lambda: machines.named("ray::do_task"), "a process of Ray works")
    kill(machines.named("ray::do_task")[0])
    kill(busy_after_a_step(trial, machines))
    return trial.finish(child) or trial.verdict(truth)


def raylet(place: Path, truth: Trial, machines: Machines) -> str:
    """A machine of two is lost with all its processes."""
    trial = Trial(place, "raylet")
    second = machines.join()
    child = trial.start(SEARCH, machines.address)
    busy_after_a_step(trial, machines)
    for process in family(second.pid):
        kill(process)
    return trial.finish(child) or trial.verdict(truth)


def late(place: Path, truth: Trial) -> str:
    """No machine can do anything until one joins."""
    trial = Trial(place, "late")
    with cluster(place) as machines:
        machines.head(cpus=0)
        child = trial.start(SEARCH, machines.address)
        until(lambda: "waiting for one" in trial.output.read_text(), "the campaign says that it waits")
        machines.join()
        return trial.finish(child) or trial.verdict(truth)


def head(place: Path, truth: Trial) -> str:
    """The head is lost; the campaign ends, and is resumed on another cluster."""
    trial = Trial(place, "head")
    with cluster(place) as machines:
        first = machines.head()
        machines.join()
        child = trial.start(SEARCH, machines.address)
        busy_after_a_step(trial, machines)
        for process in family(first.pid):
            kill(process)
        code = forked.wait(child, LIMIT)
        print(f"  head: the driver ended with {code}, {trial.steps()} of 3 steps stored", flush=True)
        if code is None:
            return "the driver hangs"
    with cluster(place) as machines:
        machines.head()
        wrong = trial.finish(trial.start(RESUME, machines.address))
    return wrong or trial.verdict(truth)


def driver(place: Path, truth: Trial, machines: Machines) -> str:
    """The campaign's own process is killed; its work ends, and it is resumed on the same cluster."""
    trial = Trial(place, "driver")
    child = trial.start(SEARCH, machines.address)
    busy_after_a_step(trial, machines)
    forked.kill(child)
    until(lambda: not machines.named("ray::do_task"), "nobody works for a dead driver")
    return trial.finish(trial.start(RESUME, machines.address)) or trial.verdict(truth)


def memory(place: Path, truth: Trial) -> str:
    """Memory is short: Ray ends workers until there is room again."""
    trial = Trial(place, "memory")
    ballast = bytearray(os.urandom(1)) * BALLAST
    used = 1 - psutil.virtual_memory().available / psutil.virtual_memory().total
    limit = used + 0.2 * 2**30 / psutil.virtual_memory().total
    settings = {"RAY_memory_usage_threshold": f"{limit:.4f}", "RAY_memory_monitor_refresh_ms": "100"}
    with cluster(place, **settings) as machines:
        machines.head()
        child = trial.start(SEARCH, machines.address)

        until(lambda: "low on memory" in trial.output.read_text(), "Ray ends a worker for want of memory")
        del ballast
        return trial.finish(child) or trial.verdict(truth)


def shared(place: Path, truth: Trial, machines: Machines) -> str:
    """Two campaigns on one cluster at the same time."""
    ours, other, alone = Trial(place, "shared"), Trial(place, "shared", 2), Trial(place, "alone", 2)
    wrong = alone.finish(alone.start(SEARCH, None))
    children = [(trial, trial.start(SEARCH, machines.address)) for trial in (ours, other)]
    wrong = wrong or "; ".join(filter(None, [trial.finish(child) for trial, child in children]))
    return wrong or ours.verdict(truth) or other.verdict(alone)


ON_ONE_CLUSTER = {case.__name__: case for case in (worker, driver, shared, raylet)}
ALONE = {case.__name__: case for case in (late, head, memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=[*ON_ONE_CLUSTER, *ALONE], nargs="+", help="Some cases.")
    options = parser.parse_args()
    os.environ.pop("RAY_ADDRESS", None)
    chosen = options.only or [*ON_ONE_CLUSTER, *ALONE]
    answers: list[str] = []

    def tell(name: str, trial: Callable[[], str]) -> None:
        began = time.monotonic()
        try:
            answers.append(trial())
        except TimeoutError as late:
            answers.append(f"hang: {late}")
        print(f"{name}: {answers[-1] or 'good'} ({time.monotonic() - began:.0f} s)", flush=True)

    with tempfile.TemporaryDirectory(prefix="rf-") as scratch:
        place = Path(scratch)
        token = place / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
        forked.warm_up()
        truth = Trial(place, "truth")
        if wrong := truth.finish(truth.start(SEARCH, None)):
            sys.exit(f"the campaign without harm: {wrong}")
        if together := [name for name in ON_ONE_CLUSTER if name in chosen]:
            with cluster(place) as machines:
                machines.head()
                for name in together:
                    tell(name, partial(ON_ONE_CLUSTER[name], place, truth, machines))
        for name in ALONE:
            if name in chosen:
                tell(name, partial(ALONE[name], place, truth))
    print(f"{len(answers)} cases, {sum(map(bool, answers))} with a fault")
    sys.exit(1 if any(answers) else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()

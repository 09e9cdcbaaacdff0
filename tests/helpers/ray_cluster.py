"""Real Ray clusters of small machines ("raylets") on this one, with a token, for tests and fault scripts."""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(  # read when Ray is imported; a busy machine takes longer than Ray's half a minute to start
    RAY_AUTH_MODE="token",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_raylet_start_wait_time_s="300",
    RAY_agent_register_timeout_ms="300000",
)
STORE = 80_000_000
"""Bytes of shared memory of each raylet: Ray's least is 75 MB."""


@cache
def token() -> Path:
    """One file for this process and its children: Ray reads it once and keeps it, whatever comes later."""
    path = Path(tempfile.mkdtemp(prefix="anchor-ray-")) / "token"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    return path


def node(cluster: Any, **wishes: Any) -> Any:
    """A further machine."""
    return cluster.add_node(object_store_memory=STORE, **{"num_cpus": 1, **wishes})


@contextmanager
def small_cluster(*, head_cpus: int = 1, settings: dict[str, Any] | None = None) -> Iterator[Any]:
    """A head with so many processors; a lost machine is noticed within seconds."""
    os.environ.update(RAY_AUTH_TOKEN_PATH=str(token()))
    os.environ.pop("RAY_ADDRESS", None)
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000}
    quick |= {"health_check_timeout_ms": 20_000, "health_check_failure_threshold": 2}
    head: dict[str, Any] = {"num_cpus": head_cpus, "include_dashboard": False}
    head |= {"object_store_memory": STORE, "_system_config": quick | (settings or {})}
    with (Path(tempfile.gettempdir()) / "anchor-ray-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two clusters that begin together may take each other's ports
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield cluster
        finally:
            cluster.shutdown()

"""One campaign in this process, on processes, on one raylet and on two: the same candidates, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tasks
from ray_cluster import node, small_cluster

from anchor.config import load_config
from anchor.executors import Executor, Inline, Processes, Turns
from anchor.executors.ray_tasks import RayTasks
from anchor.potentials.registry import load_potential
from anchor.relax.parallel import Relaxer
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment

SETTINGS = [
    "run.structures=16", "run.seed=3", "grpo.group_size=8", "relax.max_steps=3", "relax.chunk_atoms=12",
    "action_space.max_atoms=6", "action_space.k=[2]", "action_space.elements=[Na, Mg, O, F, Cl]",
    "policy.source=neutral", "search.staleness=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    before = dict(os.environ)
    with small_cluster() as found:
        yield found
    os.environ.clear()
    os.environ.update(before)


def test_the_same_candidates_wherever_they_are_relaxed(cluster: Any, tmp_path: Path) -> None:
    config = load_config(overrides=SETTINGS).config
    environment = Environment.load(config, potential=load_potential(config.relax.potential))

    def rows(name: str, executor: Executor) -> list[dict[str, Any]]:
        judge = replace(environment.judge, relaxer=Relaxer(environment.potential, executor=executor))
        there = replace(environment, judge=judge, realiser=replace(environment.realiser, judge=judge))
        campaign = Campaign.start(config, tmp_path / name, environment=there)
        campaign.run()
        return list(campaign.ledger.rows())

    with Processes(workers=2) as processes, RayTasks(address=cluster.address) as ray:
        expected = rows("inline", Inline())
        assert rows("processes", processes) == expected
        assert rows("one raylet", ray) == expected
        node(cluster)
        assert rows("two raylets, steps overlap", Turns(ray)) == expected
        assert len(set(ray.results(tasks.node_of, range(8)))) == 2
    assert sum(row["relaxed"] is not None for row in expected) > 8

"""CPU seconds of an episode of DDPO: sampling, replay and scoring, and what the ways to replay cost.

    python benchmarks/ddpo.py [kldm-dng] [--episodes 3] [--share 0.2]

Episodes of 16 structures as `anchor generator finetune` has them, in one process and one thread. The recorded
ways of each episode are also replayed without a step of the optimiser: one step of one way in a call of the
network, as many as `ddpo.MOST_PAIRS` lets, and a share of the steps (`generator.scored`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from anchor.config import load_config
from anchor.generators.learner import Episode, Generating
from anchor.models import ddpo
from anchor.random import generator
from anchor.search.campaign import Campaign
from anchor.search.tuning import tuning

WAYS = {"replay, a step in a call": (1, False), "replay": (ddpo.MOST_PAIRS, False)}
"""Pairs in a call, and whether a share of the steps is enough."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default="kldm-dng", help="a generator, or its file")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--pairs", type=int, nargs="*", default=[], help="other values of MOST_PAIRS")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ways = WAYS | {f"replay, share {given.share:g}": (ddpo.MOST_PAIRS, True)}
    ways |= {f"replay, {pairs} pairs in a call": (pairs, False) for pairs in given.pairs}
    values = tuning(given.name, episodes=given.episodes) | {"run.workers": 1}
    config = load_config(values=values).config
    spent: Counter[str] = Counter()

    def timed(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            began = time.process_time()
            answer = work(*args, **more)
            spent[part] += time.process_time() - began
            return answer

        return run

    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign.start(config, Path(folder) / "run")
        learner = campaign.learner
        assert isinstance(learner, Generating)
        learner.rollout = timed("sampling", learner.rollout)  # type: ignore[method-assign]
        update = timed("update", learner.update)

        def heard(episode: Episode, scores: Any) -> Any:
            before = time.process_time()
            for part, (pairs, share) in ways.items():
                timed(part, replay)(learner, episode, pairs, given.share if share else 1.0)
            spent["aside"] += time.process_time() - before
            return update(episode, scores)

        learner.update = heard  # type: ignore[method-assign]
        whole = timed("whole", campaign.step)
        for _ in range(given.episodes):
            whole()
    spent["scoring and the ledger"] = (
        spent.pop("whole") - spent.pop("aside") - spent["sampling"] - spent.pop("update")
    )
    print(f"{given.name}: CPU seconds of an episode of {config.grpo.group_size}, mean of {given.episodes}")
    for part in ("sampling", "scoring and the ledger", *ways):
        print(f"{part:32s} {spent[part] / given.episodes:7.2f} {spent[part] / spent['replay']:6.2f} x replay")


def replay(learner: Generating, episode: Episode, pairs: int, share: float) -> None:
    """The gradient of an episode, without a step."""
    model, ways = learner.generator.model, episode.made.ways
    rng = generator(0, "benchmark", episode.step)
    steps = [ddpo.drawn_steps(model.informative(way.trajectory), share, rng) for way in ways]
    signs = [torch.from_numpy(np.where(way.owner % 2, 1.0, -1.0)) for way in ways]
    with patch.object(ddpo, "MOST_PAIRS", pairs):
        ddpo.accumulate(model, ways, signs, clip=learner.config.generator.clip, steps=steps)
    model.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()

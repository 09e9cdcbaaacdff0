"""Does GRPO climb from a policy? Settings tried in a stand-in of the environment that costs little.

Usage: python benchmarks/climb.py POLICY [--structures 20000] [--preset learn] [--set section.name=value]
[--seed 0] [--world 1] [--worlds 1]; prints a row per window, and one JSON document at the end. Outcomes are
drawn from the free estimate's chances with hidden offsets of the elements (`anchor.studies.stand_in`).
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.config import Config, load_config
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Learner, Proposer
from anchor.policy.network import CompositionPolicy
from anchor.screening.estimate import load_estimate
from anchor.search.adaptive import Adaptive
from anchor.search.imagining import Imagining
from anchor.search.policies import load_trained
from anchor.studies.stand_in import StandIn, climb

COLUMNS = ("structures", "n", "valid", "unique", "msun", "sun", "known", "entropy_fraction")


def chances(compositions: Compositions) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """P(within 0.1 eV/atom) of neutral compositions, and which formulas are known."""
    neutral = np.flatnonzero(is_neutral(compositions))
    chance, known = np.zeros(len(compositions)), np.zeros(len(compositions), dtype=bool)
    if len(neutral):
        found = load_estimate()(compositions[neutral])
        chance[neutral], known[neutral] = found.metastable, found.known
    return chance, known


def learner(config: Config, limits: Limits, policy: CompositionPolicy) -> Proposer[Any]:
    """Who proposes, by `policy.source`."""
    policy = copy.deepcopy(policy)
    if config.policy.source == "imagined":
        return Imagining.start(policy, limits, config)
    if config.policy.source == "adaptive":
        return Adaptive(limits, config)
    return Learner.start(config, limits, policy=policy)


def tell(point: dict[str, Any]) -> None:
    """One line of the curve."""
    print("\t".join(str(point[c]) for c in COLUMNS), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", help="policy file, or 'default'")
    parser.add_argument("--structures", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=2000)
    parser.add_argument("--preset", default="learn")
    parser.add_argument("--offsets", type=float, default=0.5, help="spread of hidden offsets, log-odds")
    parser.add_argument("--seed", type=int, default=0, help="of the learner")
    parser.add_argument("--world", type=int, default=1, help="seed of the first world")
    parser.add_argument(
        "--worlds", type=int, default=1, help="worlds, each with its own offsets and outcomes"
    )
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="override the config")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    trained = load_trained(arguments.policy)
    overrides = [f"run.seed={arguments.seed}", f"run.structures={arguments.structures}", *arguments.set]
    config = load_config(preset=arguments.preset, overrides=overrides).config
    limits = Limits.from_config(trained.space)
    runs: list[dict[str, Any]] = []
    for world_seed in range(arguments.world, arguments.world + arguments.worlds):
        world = StandIn(chances, config, offset_spread=arguments.offsets, seed=world_seed)
        print("\t".join(COLUMNS), file=sys.stderr)
        began = time.process_time()
        curve = climb(
            config,
            learner(config, limits, trained.network),
            world,
            structures=arguments.structures,
            window=arguments.window,
            on_point=tell,
        )
        seconds = round(time.process_time() - began, 1)
        runs.append({"world": world_seed, "cpu_seconds": seconds, "curve": curve})
    print(json.dumps({"policy": arguments.policy, "set": arguments.set, "runs": runs}))


if __name__ == "__main__":
    main()

"""The paper's order of evaluation against the faster default: rewards, advantages, time.

Usage: python benchmarks/order.py [--groups 10] [--policy default] [--set section.name=value]; the last line
is one JSON document. Same compositions, weights and crystals in both orders, MatterSim-1M, template prior.
With an untrained policy a group of 32 takes about half a CPU minute.
"""

from __future__ import annotations

import argparse
import json
import sys

from anchor.config import load_config
from anchor.studies.order import compare_orders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10, help="groups to score in both orders")
    parser.add_argument("--policy", help="policy file, or 'default'; by default an untrained policy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="override the config")
    arguments = parser.parse_args()
    overrides = [*arguments.set, f"run.seed={arguments.seed}"]
    if arguments.policy:
        overrides.append(f"policy.start_from={arguments.policy}")
    config = load_config(overrides=overrides).config
    result = compare_orders(
        config,
        groups=arguments.groups,
        on_group=lambda done: print(f"group {done + 1} of {arguments.groups}", file=sys.stderr, flush=True),
    )
    for name, row in result["differences"].items():
        print(name, ", ".join(f"{key} {value}" for key, value in row.items()))
    for name, ratio in result["saved"].items():
        cost = result["cost"]
        print(f"{name}: paper {cost['paper'][name]:g}, fast {cost['fast'][name]:g}, ratio {ratio}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

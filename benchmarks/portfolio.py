"""Portfolios of priors against templates alone, on random charge-neutral formulas, in one run.

    python benchmarks/portfolio.py FOLDER [--priors templates-all portfolio:cheap portfolio:standard]
        [-n 100] [--seed 13] [--source neutral]

n formulas each of two, three and four elements (`--source`: any source of compositions instead, n in all).
Each prior makes its proposals (the number of formula units is free), single points and a few steps of
MatterSim-1M choose as the prior says, and one is relaxed as by the internal protocol (cell free, 400 steps,
0.02 eV/Å, both hulls). Counted: metastable (valid and within 0.1 eV/atom) by number of elements, wins and
losses against the first prior on the same formulas, evaluations of the potential for choosing and relaxing,
and CPU seconds of sampling, choosing and relaxing. FOLDER keeps what is done, so a killed run goes on.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anchor.chemistry.composition import Composition, parse_formula
from anchor.chemistry.spaces import sample_neutral
from anchor.evaluate.internal import InternalProtocol
from anchor.evaluate.sources import find_source
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW
from anchor.outcomes.judge import Judge
from anchor.priors import Prior, load_prior
from anchor.random import generator
from anchor.statistics import wilson_interval

POTENTIAL = "mattersim-1m"
BLOCK = 12
"""Formulas per call of a prior, and per line of what is done."""
K = (2, 3, 4)


def neutral(n: int, seed: int, elements: Sequence[str]) -> list[Composition]:
    """n charge-neutral formulas of each number of elements; blocks hold all of them."""
    drawn = list(sample_neutral(12 * n, generator(seed, "portfolio"), "formulas", elements=elements))
    by_k = [[c for c in drawn if len(c.counts) == k][:n] for k in K]
    return [c for row in zip(*by_k, strict=True) for c in row]


def block(prior: Prior, judge: Judge, cells: list[Composition], seed: int, number: int) -> dict[str, Any]:
    """One block through the whole way: columns of its formulas, and what it cost."""
    n = prior.proposals
    clock = [time.process_time()]
    made = prior.realise(cells, n, seed=seed, stream=("portfolio", number), cell="free")
    clock.append(time.process_time())
    contest = judge.contest(made.crystals, made.request // n, prior.rounds)
    clock.append(time.process_time())
    (relaxed,) = judge.relaxed([contest.crystals])
    clock.append(time.process_time())
    assert judge.checks is not None
    table, _ = judge.checks(judge.placed(relaxed))
    owner = (made.request // n)[contest.index]
    everyone = table.spread(owner, len(cells))
    choosing = np.zeros(len(cells), dtype=int)
    choosing[owner] = contest.evaluations
    made_by: list[str | None] = [None] * len(cells)
    for i, index in zip(owner.tolist(), contest.index.tolist(), strict=True):
        made_by[i] = made.made_by[index]
    return {
        "formula": [c.formula for c in cells],
        "k": [len(c.counts) for c in cells],
        "made_by": made_by,
        "above": everyone.numbers(ABOVE).tolist(),
        "valid": everyone.flags("valid").tolist(),
        "choosing": choosing.tolist(),
        "relaxing": np.nan_to_num(everyone.numbers("evaluations")).astype(int).tolist(),
        "proposals": len(made.crystals),
        "cpu_seconds": dict(zip(("sampling", "choosing", "relaxing"), np.diff(clock).tolist(), strict=True)),
    }


def summary(blocks: list[dict[str, Any]], first: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of one prior, and against the first one on the same formulas."""
    good, against = (np.concatenate([_metastable(b) for b in one]) for one in (blocks, first))
    stable = np.concatenate([_below(b, 0.0) for b in blocks])
    k = np.concatenate([b["k"] for b in blocks])
    above = np.nan_to_num(np.concatenate([b["above"] for b in blocks]).astype(float), nan=np.inf)
    low, high = wilson_interval(good.sum(), np.array(len(good)))
    cpu = {name: sum(b["cpu_seconds"][name] for b in blocks) for name in blocks[0]["cpu_seconds"]}
    evaluations = {name: sum(map(sum, (b[name] for b in blocks))) for name in ("choosing", "relaxing")}
    total = sum(evaluations.values())
    makers = [name for b in blocks for name, ok in zip(b["made_by"], _metastable(b), strict=True) if ok]
    return {
        "formulas": len(good),
        "metastable": int(good.sum()),
        "interval": [round(float(low), 3), round(float(high), 3)],
        "by_k": {int(size): int(good[k == size].sum()) for size in np.unique(k)},
        "stable": int(stable.sum()),
        "wins": int((good & ~against).sum()),
        "losses": int((against & ~good).sum()),
        "median_above_hull_ev_per_atom": round(float(np.median(above)), 4),
        "proposals": sum(b["proposals"] for b in blocks),
        "evaluations": evaluations,
        "metastable_per_1000_evaluations": round(1000 * good.sum() / total, 2),
        "cpu_seconds": {name: round(value, 1) for name, value in cpu.items()},
        "metastable_by_maker": {name: makers.count(name) for name in sorted(set(makers))},
    }


def _below(one: dict[str, Any], limit: float) -> np.ndarray:
    above = np.array(one["above"], dtype=float)
    return np.array(one["valid"], dtype=bool) & (np.nan_to_num(above, nan=np.inf) <= limit)


def _metastable(one: dict[str, Any]) -> np.ndarray:
    return _below(one, METASTABLE_BELOW)


def stored(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--priors", nargs="+", default=["templates-all", "portfolio:cheap", "portfolio:standard"]
    )
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--source", default="neutral", help="neutral, or any source of compositions")
    options = parser.parse_args()
    torch.set_num_threads(1)
    protocol = InternalProtocol(potential=POTENTIAL)
    judge, elements = protocol.judge, protocol.hull.searchable_elements  # type: ignore[union-attr]
    if options.source == "neutral":
        cells = neutral(options.n, options.seed, elements)
    else:
        drawn = find_source([options.source], elements=elements).draw(options.seed, options.n)
        cells = [parse_formula(row["cell"]) for row in drawn.rows(("cell",)) if row["cell"]]
    options.folder.mkdir(parents=True, exist_ok=True)
    priors = {name: load_prior(name) for name in options.priors}
    paths = {name: options.folder / f"{name.replace(':', '-')}.jsonl" for name in priors}
    done = {name: stored(path) for name, path in paths.items()}
    for prior in priors.values():
        prior.realise("LiCoPSe", prior.proposals)  # tables are made before the clock runs
    for number in range(
        -(-len(cells) // BLOCK)
    ):  # all priors, then the next formulas: halves can be compared
        for name, prior in priors.items():
            if number < len(done[name]):
                continue
            some = cells[number * BLOCK : (number + 1) * BLOCK]
            done[name].append(block(prior, judge, some, options.seed, number))
            with paths[name].open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[name][-1]) + "\n")
    for name, blocks in done.items():
        print(json.dumps({"prior": name, **summary(blocks, done[options.priors[0]])}), flush=True)


if __name__ == "__main__":
    main()

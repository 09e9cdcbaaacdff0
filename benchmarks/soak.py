"""Does a step of a campaign cost the same after a thousand candidates and after a million?

    python benchmarks/soak.py [--sizes 1024 8192 131072 1048576] [--steps 3]

A campaign of the shipped policy with the real prior, gate, hull, reward, learner and ledger, and a simulated
potential: every crystal is at its minimum. Eight steps of 128 candidates are run, then the ledger is made
larger by copies of its rows under other formulas, resumed, and a few more steps are taken, size by size, in
turns with those of a copy that stayed small: the median ratio of a step to its neighbour says whether costs
grow, also on a machine that others use. Time to resume is that with everything already loaded
(`anchor resume` counts all candidates for its view, too). One process, one thread, CPU time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch_sim.state import SimState

from anchor.cli.live import LiveView
from anchor.config import load_config
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.potentials.base import COMMON_ELEMENTS, Potential
from anchor.potentials.registry import find
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment

SETTINGS = ["policy.source=policy", "policy.start_from=default", "grpo.group_size=32", "run.workers=1"]
GROUPS, FIRST_STEPS = 4, 8


class AtRest(Potential):
    """Every crystal is at its minimum, 4 eV per atom deep. Takes the place of MatterSim-1M on its hull."""

    def __init__(self) -> None:
        super().__init__(
            name="mattersim-1m",
            elements=COMMON_ELEMENTS,
            energies_corrected=False,
            checkpoint_hash=find("mattersim-1m").weights.sha256 or "",
        )

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        return {
            "energy": -4.0 * state.n_atoms_per_system.double(),
            "forces": torch.zeros_like(state.positions),
            "stress": torch.zeros_like(state.cell),
        }


def grow(ledger: Path, size: int) -> None:
    """Double the rows of a ledger until it has at least so many candidates; copies have other formulas."""
    with sqlite3.connect(ledger) as database:
        names = {
            table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            for table in ("candidates", "steps")
        }
        while True:
            n, steps = (database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in names)
            if n >= size:
                break
            copy = {"id": f"id + {n}", "step": f"step + {steps}", "formula": f"formula || 'x{n}'"}
            copy["structures"] = f"structures + {n}"
            for table, columns in names.items():
                chosen = ", ".join(copy.get(name, name) for name in columns)
                database.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table}")
            database.commit()
        database.execute("UPDATE states SET step = ? WHERE name = 'latest'", (steps - 1,))


def memory_mb() -> float:
    """Resident memory of this process."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 8192, 131072, 1048576])
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = load_config(overrides=[*SETTINGS, f"grpo.groups_per_step={GROUPS}"]).config
    environment = Environment.load(config, potential=AtRest())
    each = GROUPS * config.grpo.group_size
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        small, folder = Path(scratch) / "small", Path(scratch) / "run"
        campaign = Campaign.start(config, folder, environment=environment)
        campaign.run(FIRST_STEPS * each)
        campaign.ledger.close()
        shutil.copytree(folder, small)
        for size in options.sizes:
            grow(folder / "ledger.db", size)
            began = time.process_time(), time.perf_counter()
            campaign = Campaign.resume(folder, environment=environment)
            LiveView(Tally(), size, quiet=True).recall(campaign.ledger.rows(TALLY_COLUMNS))
            resumed = time.process_time() - began[0], time.perf_counter() - began[1]
            candidates = campaign.structures
            with tempfile.TemporaryDirectory(dir=scratch) as fresh:
                shutil.copytree(small, Path(fresh) / "run")
                beside = Campaign.resume(Path(fresh) / "run", environment=environment)
                here, there, others = alternate(campaign, beside, options.steps)
                beside.ledger.close()
            campaign.ledger.close()
            rows.append(
                {
                    "candidates": candidates,
                    "ms_per_candidate": round(1e3 * statistics.median(here) / each, 2),
                    "times_that_of_a_small_campaign": round(
                        statistics.median(a / b for a, b in zip(here, there, strict=True)), 3
                    ),
                    "share_outside_prior": round(statistics.median(others), 3),
                    "resume_cpu_seconds": round(resumed[0], 1),
                    "resume_wall_seconds": round(resumed[1], 1),
                    "memory_mb": round(memory_mb()),
                    "ledger_mb": round((folder / "ledger.db").stat().st_size / 2**20),
                }
            )
            print(rows[-1], flush=True)
    print(json.dumps({"benchmark": "soak", **vars(options), "rows": rows}))


def alternate(
    campaign: Campaign, beside: Campaign, steps: int
) -> tuple[list[float], list[float], list[float]]:
    """CPU seconds of each step of both, one after the other, and shares outside prior and potential."""
    here: list[float] = []
    there: list[float] = []
    others = []
    for number in range(steps):
        turns = [(campaign, here), (beside, there)]
        for one, seconds in turns if number % 2 else reversed(turns):
            start = time.process_time()
            report = one.step()
            seconds.append(time.process_time() - start)
            if one is campaign:
                outside = sum(s for part, s in report.seconds.items() if part not in ("prior", "potential"))
                others.append(outside / sum(s for part, s in report.seconds.items() if part != "potential"))
    return here, there, others


if __name__ == "__main__":
    main()

"""What 1, 8, 64 and 512 workers would bring: a discrete-event model with the times of a real campaign.

    python benchmarks/scaling.py                    the times that were stored, the table, docs/scaling.svg
    python benchmarks/scaling.py --campaign runs/x  the times of another campaign, stored first

A step of a campaign is: policy and prior (driver), parts that workers relax, then hull, gate, reward, policy
and ledger (driver), in the order of the steps. The driver does one thing at a time; handing over a task costs
it time, too. Every part has the duration that its atoms times evaluations ask for, scaled so that the model
with the campaign's own workers takes the campaign's own time. Not modelled: the network, and start-up.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from anchor.relax.parallel import PART_ATOMS, deal

HERE = Path(__file__).parent
STORED = HERE / "scaling.json"
PICTURE = HERE.parent / "docs" / "scaling.svg"
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
HAND_OVER = 0.0016
"""Driver seconds per task: 1,000 empty tasks took 1.55 s on two raylets of a busy machine."""
STEPS = 400
"""Simulated steps: the campaign's own, again and again."""
DRIVER = ("policy", "prior", "hull", "scoring", "database")
PLANS: dict[str, tuple[int, int, int]] = {
    "paper: one group, staleness 0": (1, 0, PART_ATOMS),
    "one group, staleness 4": (1, 4, PART_ATOMS),
    "one group, staleness 32": (1, 32, PART_ATOMS),
    "16 groups, staleness 0": (16, 0, PART_ATOMS),
    "16 groups, staleness 4": (16, 4, PART_ATOMS),
    "16 groups, staleness 4, parts of 24 atoms": (16, 4, 24),
}
"""Groups per step, staleness, atoms per part."""


@dataclass(frozen=True)
class Times:
    """Of a campaign.

    Attributes:
        driver: Seconds per group of the driver, by part.
        crystals: (atoms, evaluations) of each crystal of each group that was relaxed.
        second: Worker seconds per atom and evaluation.
        group_size: Compositions of a group.
    """

    driver: dict[str, float]
    crystals: list[list[tuple[int, int]]]
    second: float
    group_size: int

    def parts(self, group: int, atoms: int) -> list[float]:
        """Seconds of the parts that a group is dealt into."""
        crystals = self.crystals[group % len(self.crystals)]
        hands = deal([n for n, _ in crystals], atoms)
        return [self.second * sum(crystals[i][0] * crystals[i][1] for i in hand) for hand in hands]


@dataclass
class Model:
    """A driver that does one thing at a time, and workers; whatever waits is served in the order of steps."""

    workers: int
    now: float = 0.0
    busy: Counter[str] = field(default_factory=Counter)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: count[int] = field(default_factory=count)
    _queues: dict[str, list[tuple[int, int, str, float, Callable[[], None]]]] = field(
        default_factory=lambda: {"driver": [], "worker": []}
    )
    _free: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = {"driver": 1, "worker": self.workers}

    def use(self, who: str, what: str, step: int, seconds: float, then: Callable[[], None]) -> None:
        """Let someone work for a while, as soon as they are free."""
        heapq.heappush(self._queues[who], (step, next(self._number), what, seconds, then))
        self._begin(who)

    def _begin(self, who: str) -> None:
        while self._free[who] and self._queues[who]:
            _, number, what, seconds, then = heapq.heappop(self._queues[who])
            self._free[who] -= 1
            self.busy[what] += seconds  # type: ignore[assignment]

            def end(then: Callable[[], None] = then) -> None:
                self._free[who] += 1
                then()
                self._begin(who)

            heapq.heappush(self._events, (self.now + seconds, number, end))

    def run(self) -> None:
        while self._events:
            self.now, _, end = heapq.heappop(self._events)
            end()


def simulate(
    times: Times, workers: int, groups: int, staleness: int, atoms: int
) -> tuple[float, Counter[str]]:
    """Seconds of STEPS groups, and seconds that driver and workers were busy, by what they did."""
    model, driver = Model(workers), times.driver
    steps = max(1, STEPS // groups)
    finished: set[int] = set()
    proposed = stored = 0

    def propose() -> None:
        nonlocal proposed
        while proposed < steps and proposed <= stored + staleness:
            step, proposed = proposed, proposed + 1
            before = groups * (driver["policy"] / 2)
            model.use("driver", "policy", step, before, lambda step=step: prior(step))

    def prior(step: int) -> None:
        model.use("driver", "prior", step, groups * driver["prior"], lambda: hand_over(step))

    def hand_over(step: int) -> None:
        parts = deque(p for g in range(groups) for p in times.parts(step * groups + g, atoms))
        left = len(parts)

        def relaxed() -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.add(step)
                learn()

        def next_part() -> None:
            if parts:
                part = parts.popleft()
                model.use("worker", "relaxation", step, part, relaxed)
                model.use("driver", "tasks", step, HAND_OVER, next_part)

        model.use("driver", "tasks", step, HAND_OVER, next_part)

    def learn() -> None:
        if stored in finished:
            finished.discard(stored)
            after = groups * (driver["hull"] + driver["scoring"] + driver["policy"] / 2)
            model.use("driver", "reward and policy", stored, after, store)

    def store() -> None:
        def end() -> None:
            nonlocal stored
            stored += 1
            propose()
            learn()

        model.use("driver", "database", stored, groups * driver["database"], end)

    propose()
    model.run()
    assert stored == steps, "no step is lost"
    return model.now * STEPS / (steps * groups), model.busy


def bottleneck(seconds: float, busy: Counter[str], workers: int) -> str:
    """What there is too little of."""
    driver = {what: spent for what, spent in busy.items() if what != "relaxation"}
    if busy["relaxation"] / workers > 0.8 * seconds:
        return "workers"
    if sum(driver.values()) > 0.8 * seconds:
        return f"driver ({max(driver, key=driver.__getitem__)})"
    return "parts under way"


def measured(campaign: Path) -> dict[str, object]:
    """Times of a campaign of ours, as they are stored."""
    from anchor.search.ledger import Ledger

    ledger = Ledger.open(campaign)
    steps = ledger.step_rows()
    config = ledger.config
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in ledger.rows(["step", "group_index", "n_atoms", "evaluations"]):
        if row["evaluations"]:
            key = (row["step"], row["group_index"])
            groups.setdefault(key, []).append((row["n_atoms"], row["evaluations"]))
    totals = Counter[str]()
    for step in steps:
        totals.update(step["seconds"])
    crystals = list(groups.values())
    return {
        "campaign": f"{len(steps)} steps, {ledger.n_candidates} candidates, {config['policy']['source']}",
        "workers": config["run"]["workers"] or 2,
        "relaxation_seconds": round(totals["relaxation"], 2),
        "driver": {name: round(totals[name] / len(crystals), 5) for name in DRIVER},
        "group_size": config["grpo"]["group_size"],
        "crystals": crystals,
    }


def calibrated(stored: dict[str, object]) -> Times:
    """Times with which the relaxations of the campaign take what they took."""
    raw = Times(stored["driver"], stored["crystals"], 1.0, stored["group_size"])  # type: ignore[arg-type]
    groups, workers = len(raw.crystals), int(stored["workers"])  # type: ignore[call-overload]
    makespans = 0.0
    for group in range(groups):
        model = Model(workers)
        for part in raw.parts(group, PART_ATOMS):
            model.use("worker", "relaxation", group, part, lambda: None)
        model.run()
        makespans += model.now
    second = float(stored["relaxation_seconds"]) / makespans  # type: ignore[arg-type]
    return Times(raw.driver, raw.crystals, second, raw.group_size)


def draw(found: dict[str, dict[int, tuple[float, str]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "anchor"
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    first = next(iter(found.values()))[1][0]
    axes.plot(WORKERS, [first * w for w in WORKERS], color="0.8", label="in proportion")
    for name, rates in found.items():
        axes.plot(WORKERS, [rates[w][0] for w in WORKERS], marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="workers (one core each)", ylabel="candidates per hour")
    axes.set_ylim(first * 0.7, first * 120)
    axes.set_xticks(WORKERS, [str(w) for w in WORKERS])
    axes.legend(fontsize=8, loc="upper left")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaign", type=Path, help="Folder of a campaign: take its times and store them.")
    options = parser.parse_args()
    if options.campaign is not None:
        STORED.write_text(json.dumps(measured(options.campaign)) + "\n")
    stored = json.loads(STORED.read_text())
    times = calibrated(stored)
    parts = [len(times.parts(g, PART_ATOMS)) for g in range(len(times.crystals))]
    work = [sum(times.parts(g, PART_ATOMS)) for g in range(len(times.crystals))]
    driver = sum(times.driver.values())
    print(f"measured on {stored['campaign']}; a group of {times.group_size}:")
    print(
        f"  workers {sum(work) / len(work):.2f} s in {sum(parts) / len(parts):.1f} parts, "
        f"driver {driver:.3f} s"
    )
    print("  of these " + ", ".join(f"{name} {spent:.3f}" for name, spent in times.driver.items()))
    found: dict[str, dict[int, tuple[float, str]]] = {}
    for name, (groups, staleness, atoms) in PLANS.items():
        found[name] = {}
        for workers in WORKERS:
            seconds, busy = simulate(times, workers, groups, staleness, atoms)
            rate = 3600 * STEPS * times.group_size / seconds
            found[name][workers] = rate, bottleneck(seconds, busy, workers)
    for name, rates in found.items():
        one = rates[1][0]
        print(f"{name:44s}" + "  ".join(f"{w}: {rates[w][0] / one:.1f}×" for w in (1, 8, 64, 512)))
        print(" " * 44 + ", ".join(f"{w}: {rates[w][1]}" for w in (8, 64, 512)))
    draw(found, PICTURE)
    shown = {
        name: {w: {"per_hour": round(r), "bottleneck": why} for w, (r, why) in rates.items()}
        for name, rates in found.items()
    }
    print(json.dumps({"benchmark": "scaling", "plans": shown}))


if __name__ == "__main__":
    main()

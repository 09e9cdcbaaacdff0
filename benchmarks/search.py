"""From compositions to rewards: as one would write the paper, and as `anchor search` does it, in one run.

    python benchmarks/search.py [--n 64] [--sources random default] [--shares]

The same compositions of an untrained source (`random`) and of the shipped policy (`default`) and the same
crystals of the template prior, whose time counts for neither. Same potential, caps, gate and phases.

  by hand   one by one: MatterSim's own ASE calculator, ASE's BFGS; then pymatgen's oxidation state guesses,
            its distances against the shortest known bonds, and a phase diagram of the chemical system.
  anchor    `anchor.search.realise.Realiser`, what a step of a campaign calls: charge neutrality first, the
            rest relaxed in batches with symmetry kept, placed on the hull and checked.

Both take turns on parts of 16; with `--shares` only anchor's part is done: where its time goes. CPU times of
this process with one thread; structures per hour count every composition that was given. The reward that is
compared is the gate's −0.2 or the stability, 1 − E_hull.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
import torch
from ase.calculators.calculator import Calculator
from ase.data import chemical_symbols
from ase.optimize import BFGS
from numpy.typing import NDArray
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition as Formula
from pymatgen.io.ase import AseAtomsAdaptor
from scipy.stats import spearmanr

from anchor.chemistry.composition import Compositions, parse_formula
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.evaluate.sources import find_source
from anchor.gates.paper import bond_thresholds
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull
from anchor.outcomes.columns import ABOVE
from anchor.reference.reference import load_reference
from anchor.reward.stability import stability_score
from anchor.search.environment import Environment
from potentials import stock

PART = 16
INVALID = -0.2


class ByHand:
    """The paper, written down with what everybody has."""

    def __init__(self, environment: Environment, calculator: Calculator, max_steps: int, fmax: float) -> None:
        assert isinstance(environment.hull, PotentialHull)
        self.hull, self.calculator = environment.hull, calculator
        self.max_steps, self.fmax = max_steps, fmax
        self.thresholds = bond_thresholds(load_reference().bonds.minimum)
        self.inside = 0.0
        calculate = calculator.calculate

        def timed(*given: Any, **more: Any) -> None:
            began = time.process_time()
            calculate(*given, **more)
            self.inside += time.process_time() - began

        calculator.calculate = timed

    def __call__(self, crystals: Crystals) -> tuple[list[bool], list[float]]:
        """Which are valid, and energies above the hull, eV/atom."""
        valid, above = [], []
        for atoms in crystals.to_atoms():
            atoms.calc = self.calculator
            BFGS(atoms, logfile=None).run(fmax=self.fmax, steps=self.max_steps)
            energy = float(atoms.get_potential_energy()) / len(atoms)
            structure = AseAtomsAdaptor.get_structure(atoms)
            valid.append(self._bonds(structure) and bool(structure.composition.oxi_state_guesses()))
            above.append(self._above(structure.composition, energy))
        return valid, above

    def _bonds(self, structure: Any) -> bool:
        first, second, _, distance = structure.get_neighbor_list(r=4.0)
        z = np.array(structure.atomic_numbers)
        return bool((distance >= self.thresholds[z[first], z[second]]).all())

    def _above(self, formula: Formula, energy: float) -> float:
        numbers = sorted(element.Z for element in formula.elements)
        phases = self.hull.hulls["dft"].within(numbers).index.phases
        entries = [
            PDEntry(
                Formula({chemical_symbols[z]: x for z, x in zip(zs, xs, strict=True) if z}), float(e)
            )  # of one atom
            for zs, xs, e in zip(phases.numbers, phases.fractions, phases.energies, strict=True)
        ]
        amounts = composition_matrix([formula.reduced_formula])
        formation = float(self.hull.calibration.formation_energy(amounts, np.array([energy]))[0])
        return formation - PhaseDiagram(entries).get_hull_energy_per_atom(formula)


class Inside:
    """CPU seconds spent inside a potential while this is open, how often it was called, and for how many."""

    def __init__(self, potential: Any) -> None:
        self.potential, self.seconds, self.calls, self.crystals = potential, 0.0, 0, 0

    def __enter__(self) -> Inside:
        self.forward = forward = self.potential.forward

        def timed(state: Any, **more: Any) -> Any:
            started = time.process_time()
            found = forward(state, **more)
            self.seconds += time.process_time() - started
            self.calls, self.crystals = self.calls + 1, self.crystals + state.n_systems
            return found

        self.potential.forward = timed
        return self

    def __exit__(self, *_: object) -> None:
        self.potential.forward = self.forward


def reward(valid: NDArray[np.bool_], above: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    return np.where(
        valid & np.isfinite(above), stability_score(np.nan_to_num(above, nan=9.0), width), INVALID
    )


def drawn(source: str, n: int, environment: Environment) -> tuple[list[Any], Crystals, float]:
    """Compositions, crystals of the prior, and its CPU seconds."""
    found = find_source([source], elements=environment.hull.searchable_elements).draw(1, n)
    cells = [parse_formula(cell) for cell in found.texts("cell")]
    began = time.process_time()
    crystals = environment.prior.sample(cells, seed=1, cell="free")
    return cells, crystals, time.process_time() - began


def shares(source: str, n: int, environment: Environment) -> dict[str, Any]:
    """Where the time of anchor goes, in groups as a search has them."""
    cells, crystals, prior = drawn(source, n, environment)
    size = environment.realiser.config.grpo.group_size
    began = time.process_time()
    with Inside(environment.potential) as inside:
        for first in range(0, n, size):
            rows = np.arange(first, min(first + size, n))
            group = Compositions.from_list([cells[i] for i in rows])
            environment.realiser([group], step=0, crystals=[crystals[rows]])
    spent = time.process_time() - began
    return {
        "source": source,
        "compositions": n,
        "anchor, CPU s": round(spent, 2),
        "prior, CPU s": round(prior, 2),
        "potential, CPU s": round(inside.seconds, 2),
        "calls": inside.calls,
        "crystals_in_a_call": round(inside.crystals / inside.calls, 2),
        "share_of_all_but_prior_and_potential": round((spent - inside.seconds) / (spent + prior), 3),
    }


def compare(source: str, n: int, environment: Environment, calculator: Calculator) -> dict[str, Any]:
    config = environment.realiser.config
    cells, crystals, prior = drawn(source, n, environment)
    by_hand = ByHand(environment, calculator, config.relax.max_steps, config.relax.fmax)
    spent = {"by hand": 0.0, "anchor": 0.0}
    valid: dict[str, list[bool]] = {"by hand": [], "anchor": []}
    above: dict[str, list[float]] = {"by hand": [], "anchor": []}
    inside = 0.0
    for first in range(0, n, PART):
        rows = np.arange(first, min(first + PART, n))
        started = time.process_time()
        ok, e = by_hand(crystals[rows])
        spent["by hand"] += time.process_time() - started
        valid["by hand"] += ok
        above["by hand"] += e
        started = time.process_time()
        group = Compositions.from_list([cells[i] for i in rows])
        with Inside(environment.potential) as potential:
            found = environment.realiser([group], step=0, crystals=[crystals[rows]])[0].outcomes
        spent["anchor"] += time.process_time() - started
        inside += potential.seconds
        valid["anchor"] += found.flags("valid").tolist()
        above["anchor"] += found.numbers(ABOVE).tolist()
        print(
            f"{source}: {rows[-1] + 1}, " + ", ".join(f"{k} {v:.1f} s" for k, v in spent.items()), flush=True
        )
    width = config.reward.stability_width
    rewards = {k: reward(np.array(valid[k]), np.array(above[k]), width) for k in spent}
    both = np.array(valid["by hand"]) & np.array(valid["anchor"])
    apart = np.abs(np.subtract(above["by hand"], above["anchor"]))[both]
    return {
        "source": source,
        "compositions": n,
        **{f"{k}, CPU s": round(v, 1) for k, v in spent.items()},
        **{f"{k}, per CPU hour": round(3600 * n / v) for k, v in spent.items()},
        "times_faster": round(spent["by hand"] / spent["anchor"], 1),
        "prior_cpu_seconds": round(prior, 1),
        "share_of_potential": {
            "by hand": round(by_hand.inside / spent["by hand"], 3),
            "anchor": round(inside / spent["anchor"], 3),
        },
        "share_of_all_but_prior_and_potential": round(
            (spent["anchor"] - inside) / (spent["anchor"] + prior), 3
        ),
        "valid": {k: int(np.sum(v)) for k, v in valid.items()},
        "equal_gate_decisions": int(np.equal(valid["by hand"], valid["anchor"]).sum()),
        "rank_correlation_of_rewards": round(float(spearmanr(*rewards.values()).statistic), 3),
        "median_mev_apart_where_both_valid": round(float(np.median(apart)) * 1000, 2) if both.any() else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--sources", nargs="+", default=["random", "default"])
    parser.add_argument("--shares", action="store_true", help="Only where the time of anchor goes.")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    overrides = ["run.workers=1", "hull.kind=dft", "policy.source=policy", "prior.name=templates-all"]
    environment = Environment.load(load_config(overrides=overrides).config)
    rows = []
    for source in options.sources:
        if options.shares:
            rows.append(shares(source, options.n, environment))
        else:
            rows.append(compare(source, options.n, environment, stock("mattersim-1m")))
        print(json.dumps(rows[-1], indent=1), flush=True)
    print(json.dumps({"benchmark": "search", **vars(options), "rows": rows}))


if __name__ == "__main__":
    main()

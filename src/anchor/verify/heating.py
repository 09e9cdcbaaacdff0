"""A short run of molecular dynamics: does a crystal stay what it is at room temperature?

torch-sim's Langevin dynamics in the supercell of the phonons, then a quench. Two picoseconds see what falls
apart at once, nothing slower.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch_sim.integrators import nvt_langevin
from torch_sim.units import MetalUnits

from anchor.crystals.crystals import Crystals
from anchor.matching.uniqueness import first_structures
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.judge import Relaxing
from anchor.potentials.base import Potential
from anchor.potentials.state import to_state
from anchor.random import torch_generator
from anchor.verify.claims import Context
from anchor.verify.phonons import multiples

QUENCH = Relaxing(cell=True, max_steps=300, fmax=0.02)
HYDROGEN = 1


@dataclass(frozen=True)
class Heated:
    """What became of a crystal.

    Attributes:
        rms: Displacement of the atoms from their sites, root mean square over the second half, Å.
        gain: How much lower the quenched crystal is, eV/atom; None: the quench failed.
        matches: Whether the quenched crystal is the same structure.
        stays: False where it went into something lower, or fell apart.
    """

    rms: float
    gain: float | None
    matches: bool
    stays: bool

    @property
    def note(self) -> str:
        what = "same structure" if self.matches else "another structure"
        lower = "no energy" if self.gain is None else f"{1000 * self.gain:.1f} meV/atom lower"
        return f"at 300 K atoms move {self.rms:.2f} Å; quenched: {what}, {lower}"

    def evidence(self) -> dict[str, Any]:
        return {"rms_angstrom": self.rms, "gain_ev_per_atom": self.gain, "matches": self.matches}


@dataclass(frozen=True)
class Heating:
    """Langevin dynamics at constant volume.

    Attributes:
        kelvin: Temperature.
        picoseconds: Length of the run.
        femtoseconds: Time step; half of it with hydrogen.
        friction: Per picosecond.
        negligible: eV/atom. A quench that ends lower by less has found nothing new.
    """

    kelvin: float = 300.0
    picoseconds: float = 2.0
    femtoseconds: float = 2.0
    friction: float = 5.0
    negligible: float = 0.002

    def __call__(
        self, crystal: Crystals, energy: float, context: Context, *, stream: tuple[str | int, ...]
    ) -> Heated:
        """Heat a relaxed primitive crystal.

        Args:
            crystal: One.
            energy: Of it, eV/atom.
            context: With the potential.
            stream: Names of the random numbers.
        """
        cold = Crystals.from_atoms(crystal.to_atoms()[0].repeat(multiples(crystal.lattice[0])))
        relaxer = context.judge.relaxer
        (ended,) = relaxer.executor.results(heat, [(self, cold, context.seed, stream)], state=relaxer.state)
        hot, rms = ended
        if not np.isfinite(rms):
            return Heated(float("inf"), None, matches=False, stays=False)
        (table,) = replace(context.judge, relaxing=QUENCH).relaxed([hot])
        if not np.isfinite(table.numbers(ENERGY)[0]):
            return Heated(rms, None, matches=False, stays=False)
        gain = energy - float(table.numbers(ENERGY)[0]) / hot.n_atoms
        matches = bool(first_structures(Crystals.concatenate([crystal, table.crystals]))[1] == 0)
        return Heated(rms, gain, matches, matches or gain < self.negligible)

    def run(
        self, cold: Crystals, potential: Potential, seed: int, stream: tuple[str | int, ...]
    ) -> tuple[Crystals, float]:
        """The crystal at the end and the displacement of its atoms, Å."""
        state = to_state(cold, device=potential.device)
        step = self.femtoseconds / (2 if HYDROGEN in cold.numbers else 1)
        steps = round(1000 * self.picoseconds / step)
        number = lambda value: torch.tensor(value, dtype=state.dtype, device=state.device)  # noqa: E731
        seeds = torch_generator(seed, *stream)
        begin, advance = nvt_langevin(
            potential,
            dt=number(step / 1000 * MetalUnits.time),
            kT=number(self.kelvin * MetalUnits.temperature),
            gamma=number(self.friction / MetalUnits.time),
            seed=seeds.initial_seed() % 2**31,
        )
        sites = state.positions.clone()
        squares = []
        with torch.random.fork_rng(devices=[]):  # torch-sim draws its noise from the global stream
            torch.manual_seed(seeds.initial_seed())
            moving = begin(state)
            for i in range(steps):
                moving = advance(moving)
                if i >= steps // 2:
                    squares.append(self._mean_square(moving.positions - sites, cold))
        frac = moving.positions.cpu().double().numpy() @ np.linalg.inv(cold.lattice[0])
        return cold.replace(frac=frac), float(np.sqrt(np.mean(squares)))

    @staticmethod
    def _mean_square(moved: torch.Tensor, cold: Crystals) -> float:
        """Of the displacements to the nearest image, without the drift of the whole, Å²."""
        lattice = cold.lattice[0]
        frac = moved.cpu().double().numpy() @ np.linalg.inv(lattice)
        cart = (frac - np.rint(frac)) @ lattice
        cart -= cart.mean(axis=0)
        return float((cart**2).sum(axis=1).mean())


def heat(
    potential: Potential, task: tuple[Heating, Crystals, int, tuple[str | int, ...]]
) -> tuple[Crystals, float]:
    """`Heating.run` wherever the work is done."""
    heating, cold, seed, stream = task
    return heating.run(cold, potential, seed, stream)

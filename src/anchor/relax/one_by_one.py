"""Paper mode: one crystal at a time with ASE's own optimisers, exactly as ASE runs them.

Energies that are cut off at a step budget depend on the optimiser, so the paper's numbers need the paper's.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS, FIRE
from ase.stress import full_3x3_to_voigt_6_stress
from torch_sim.models.interface import ModelInterface

from anchor.crystals.crystals import Crystals
from anchor.potentials.base import Potential
from anchor.potentials.state import to_state
from anchor.relax.guards import escaped
from anchor.relax.result import Record, Status

METHODS = {"ase-bfgs": BFGS, "ase-fire": FIRE}


class AseCalculator(Calculator):
    """Any torch-sim model as an ASE calculator of three-dimensional crystals.

    Attributes:
        evaluations: How often the model was called.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress"]  # noqa: RUF012 - ASE's attribute

    def __init__(self, potential: ModelInterface) -> None:
        super().__init__()
        self.potential = potential
        self.evaluations = 0

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | None = None,
        system_changes: list[str] = all_changes,
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        dtype = None if isinstance(self.potential, Potential) else self.potential.dtype
        state = to_state(Crystals.from_atoms(self.atoms), device=self.potential.device, dtype=dtype)
        self.evaluations += 1
        found = {key: value.detach().cpu().double().numpy() for key, value in self.potential(state).items()}
        energy = float(found["energy"][0])
        self.results = {"energy": energy, "free_energy": energy, "forces": found["forces"]}
        if "stress" in found:
            self.results["stress"] = full_3x3_to_voigt_6_stress(found["stress"][0])


class _NotFinite(ArithmeticError):
    """Energy or forces are NaN or infinite; ASE would fail on them later and less clearly."""


def relax_one_by_one(
    record: Record,
    i: int,
    potential: ModelInterface,
    *,
    optimizer: Literal["ase-bfgs", "ase-fire"],
    cell: bool,
    max_steps: int,
    fmax: float,
) -> None:
    """Relax crystal i of a record with ASE (maxstep 0.2 Å, ASE's defaults) and write its row."""
    atoms = record.crystals[i].to_atoms()[0]
    atoms.calc = AseCalculator(potential)
    first_volume = atoms.get_volume()
    target = FrechetCellFilter(atoms) if cell else atoms
    last: dict[str, Any] = {}
    status: Status = "capped"
    reason = ""
    try:
        moves = METHODS[optimizer](target, logfile=None, maxstep=0.2)
        for converged in moves.irun(fmax=fmax, steps=max_steps):
            energy = atoms.get_potential_energy()
            force = float(np.linalg.norm(target.get_forces(), axis=1).max())
            if not np.isfinite([energy, force]).all():
                raise _NotFinite("energy or forces are not finite")
            last = {"crystal": Crystals.from_atoms(atoms), "energy": energy, "max_force": force}
            record.evaluated(i, energy)
            record.seen(i, last["crystal"], energy, force, True)
            if converged:
                status = "converged"
                break
            reason = escaped(
                volume=atoms.get_volume(), first_volume=first_volume, count=len(atoms), max_force=force
            )
            if reason:
                status = "diverged"
                break
    # Whatever the potential or ASE's linear algebra raises is this crystal's outcome, not the others' end.
    except Exception as error:
        named = error if isinstance(error, _NotFinite) else f"{type(error).__name__}: {error}"
        status, reason = "failed", str(named).splitlines()[0][:300]
    record.end(i, status, reason, **last)

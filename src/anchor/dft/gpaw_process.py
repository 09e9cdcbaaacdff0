"""What runs inside GPAW's own process: `python gpaw_process.py JOB RESULT`. It imports nothing of anchor.

Reads a job (JSON), writes a result (JSON, whole or not at all): {"status", "energy_ev", …}. The environment
that it runs in needs gpaw and ase only, so it may be another one than anchor's.
"""

from __future__ import annotations

import ctypes
import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

RELAX_CUTOFF = 600.0
"""eV, of forces and stresses: at 400 to 500 eV the stress of basis sets that do not grow with the cell is
tens of GPa in oxides."""
RELAX_STEPS, RELAX_FMAX = 25, 0.03
"""Steps, and eV/Å (eV per strained cell and atom for the stress, as in ASE's filter)."""
MOST_ITERATIONS = 150
"""Of the self-consistency: what needs more oscillates."""


def main() -> None:
    die_with_parent()
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    target = Path(sys.argv[2])
    if limit := job["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    began = time.process_time()
    try:
        result = calculate(job, target)
    except MemoryError:
        result = {"status": "out of memory", "reason": f"more than {job['memory_bytes'] / 2**30:.1f} GiB"}
    result["cpu_seconds"] = round(time.process_time() - began, 1)
    result["max_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    write(target, result)


def die_with_parent() -> None:
    """Linux: a calculation whose anchor was killed must not go on alone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def calculate(job: dict[str, Any], target: Path) -> dict[str, Any]:
    """The energy of a job, or a status that says why there is none."""
    import gpaw
    from ase import Atoms

    atoms = Atoms(numbers=job["numbers"], scaled_positions=job["frac"], cell=job["cell"], pbc=True)
    about: dict[str, Any] = {"code": f"GPAW {gpaw.__version__}"}
    try:
        if job["relax"]:
            about |= relax(atoms, job, target)
        start(atoms, job)
        atoms.calc = calculator(job, job["cutoff"], target)
        energy = float(atoms.get_potential_energy())
    except gpaw.KohnShamConvergenceError:
        return {"status": "not converged", "reason": f"no self-consistency in {MOST_ITERATIONS} iterations"}
    except FileNotFoundError as error:
        return {"status": "no data set", "reason": str(error).splitlines()[0][:200]}
    moment = float(atoms.get_magnetic_moment()) if job["magnetic"] else 0.0
    return {"status": "done", "energy_ev": energy, "moment_mub": round(moment, 3), **about}


def start(atoms: Any, job: dict[str, Any]) -> None:
    if job["magnetic"]:
        atoms.set_initial_magnetic_moments(job["magnetic"])


def calculator(job: dict[str, Any], cutoff: float, target: Path) -> Any:
    from gpaw import GPAW

    from_generated = dict.fromkeys(job["generated"], job["generated_type"])
    setups = {symbol: f":{shell},{u},0" for symbol, shell, u in job["hubbard"]}
    for symbol, kind in from_generated.items():
        setups[symbol] = kind + setups.get(symbol, "")
    return GPAW(
        mode={"name": "pw", "ecut": cutoff},
        xc="PBE",
        kpts={"size": job["mesh"], "gamma": True},
        occupations={"name": "fermi-dirac", "width": job["width"]},
        symmetry={"symmorphic": False, "tolerance": 1e-4},
        setups=setups,
        maxiter=MOST_ITERATIONS,
        txt=str(target.with_suffix(".log")),
    )


def relax(atoms: Any, job: dict[str, Any], target: Path) -> dict[str, Any]:
    """Follow forces and stress, symmetry kept; a run that was killed goes on from its last geometry."""
    from ase.constraints import FixSymmetry
    from ase.filters import FrechetCellFilter
    from ase.optimize import BFGS

    state = target.with_suffix(".relaxing.json")
    steps = 0
    if state.exists():
        stored = json.loads(state.read_text(encoding="utf-8"))
        atoms.set_cell(stored["cell"])
        atoms.set_scaled_positions(stored["frac"])
        steps = stored["steps"]
    before = float(atoms.get_volume())
    start(atoms, job)
    atoms.calc = calculator(job, max(RELAX_CUTOFF, job["cutoff"]), target)
    atoms.set_constraint(FixSymmetry(atoms))
    walk = BFGS(FrechetCellFilter(atoms), logfile=None)

    def remember() -> None:
        done = {"cell": atoms.cell.array.tolist(), "frac": atoms.get_scaled_positions().tolist()}
        write(state, {**done, "steps": steps + walk.nsteps})

    walk.attach(remember, interval=1)
    converged = walk.run(fmax=RELAX_FMAX, steps=max(0, RELAX_STEPS - steps))
    atoms.set_constraint()
    return {
        "relaxed": {
            "converged": bool(converged),
            "steps": steps + walk.nsteps,
            "volume_ratio": round(float(atoms.get_volume()) / before, 5),
            "cell": atoms.cell.array.round(6).tolist(),
            "frac": atoms.get_scaled_positions().round(6).tolist(),
        }
    }


def write(path: Path, document: dict[str, Any]) -> None:
    draft = path.with_suffix(".partial")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    main()

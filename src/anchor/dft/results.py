"""Results of DFT codes that ran elsewhere: VASP, Quantum ESPRESSO, GPAW, read by pymatgen and ASE.

| file | read by |
| --- | --- |
| vasprun.xml, any name that holds "vasprun" | pymatgen |
| output of pw.x | ASE, espresso-out |
| result.json beside job.json, as `anchor export --as gpaw` has them made | here |
| text output of GPAW | ASE, gpaw-out, of versions before 2026; here of later ones |

Each may be compressed (.gz, .bz2, .xz).
"""

from __future__ import annotations

import lzma
import math
import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import ase.io
from ase import Atoms

from anchor.crystals.crystals import Crystals
from anchor.dft.gpaw_text import is_gpaw, read_gpaw
from anchor.dft.jobs import Job
from anchor.dft.store import DONE, Energy
from anchor.errors import InputError
from anchor.formats.files import on_disk
from anchor.reading import read_json

HEAD = 20_000
"""Bytes at the beginning of a file that tell whose it is."""
UNPACKING = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What is raised while a damaged compressed file is unpacked."""
DAMAGED = (
    SyntaxError, ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError,
    NameError, RuntimeError, StopIteration,
)  # fmt: skip
"""What the parsers of other packages raise on a file that ends early (XML's errors are SyntaxErrors)."""
NAMES = ("vasprun*", "*.out", "*.pwo", "result.json", "*.txt", "*.log")
"""Files that are looked for in folders."""


@dataclass(frozen=True, eq=False)
class Result:
    """One finished calculation.

    Attributes:
        source: Its file.
        code: "VASP", "Quantum ESPRESSO" or "GPAW".
        settings: What energies must share to be compared: functional, cut-off.
        crystal: At the end, a batch of one.
        energy: Of the cell, or why there is none.
    """

    source: str
    code: str
    settings: str
    crystal: Crystals
    energy: Energy

    @property
    def formula(self) -> str:
        return self.crystal.formulas[0]


def result_files(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and in folders those that look like results."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = (file for name in NAMES for file in path.rglob(name) if _kind(file) is not None)
            found += sorted(set(inside))
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"there is no file or folder {path}")
    if not found:
        raise InputError(
            "no result of a DFT code is there", "name vasprun.xml, an output of pw.x or result.json"
        )
    return found


def read_result(path: Path) -> Result:
    """What a file says.

    Raises:
        InputError: It is no result of a code that is known here, or is damaged.
    """
    kind = _kind(path)
    if kind is None:
        raise InputError(
            f"{path} is no result of VASP, Quantum ESPRESSO or GPAW", "name vasprun.xml or an output of pw.x"
        )
    try:
        with warnings.catch_warnings(), on_disk(path).on_disk() as plain:
            warnings.simplefilter("ignore")  # pymatgen's, about potentials and convergence: said below
            return replace(READERS[kind](plain), source=str(path))
    except (*UNPACKING, *DAMAGED) as error:
        if getattr(error, "errno", None) is not None:  # of the disk, not of the file
            raise
        raise InputError(f"{path} is damaged or unfinished: {error}", "let the calculation finish") from error


def _kind(path: Path) -> str | None:
    """Whose file it is, by its first lines."""
    if path.name == "result.json" and (path.parent / "job.json").is_file():
        return "job"
    try:
        with on_disk(path).open() as file:
            head = file.read(HEAD).decode("utf-8", errors="replace")
    except (InputError, *UNPACKING):  # a pipe, or damaged at its beginning
        return None
    if "<modeling>" in head:
        return "vasp"
    if "Program PWSCF" in head:
        return "qe"
    return "gpaw" if is_gpaw(head) else None


def _vasp(path: Path) -> Result:
    from pymatgen.io.vasp import Vasprun

    run = Vasprun(path, parse_dos=False, parse_eigen=False, parse_potcar_file=False)
    crystal = Crystals.from_structures(run.final_structure)
    cutoff = run.parameters.get("ENMAX") or run.incar.get("ENCUT")
    reason = "" if run.converged else "its electrons or its geometry are not converged"
    return Result(
        str(path),
        "VASP",
        f"{run.run_type}, {float(cutoff or 0.0):g} eV",
        crystal,
        _energy(float(run.final_energy), reason, crystal),
    )


def _qe(path: Path) -> Result:
    text = path.read_text(encoding="utf-8", errors="replace")
    atoms = ase.io.read(path, format="espresso-out")
    assert isinstance(atoms, Atoms)
    cutoff = next((line for line in text.splitlines() if "kinetic-energy cutoff" in line), "= 0 Ry")
    functional = next((line for line in text.splitlines() if "Exchange-correlation" in line), "= unknown")
    reason = "" if "JOB DONE" in text else "it did not end"
    if "convergence NOT achieved" in text:
        reason = "its electrons are not converged"
    crystal = Crystals.from_atoms(atoms)
    name = functional.partition("=")[2].split("(")[0].strip()
    return Result(
        str(path),
        "Quantum ESPRESSO",
        f"{name}, {float(cutoff.partition('=')[2].split()[0]):g} Ry",
        crystal,
        _energy(float(atoms.get_potential_energy()), reason, crystal),
    )


def _gpaw(path: Path) -> Result:
    atoms, energy, settings, reason = read_gpaw(path)
    crystal = Crystals.from_atoms(atoms)
    return Result(str(path), "GPAW", settings, crystal, _energy(energy, reason, crystal))


def _job(path: Path) -> Result:
    """Of our own process, which ran a job that we wrote."""
    question, answer = read_json(path.parent / "job.json"), read_json(path)
    fields = Job.__dataclass_fields__
    job = Job.from_dict({name: value for name, value in question.items() if name in fields})
    crystal = job.crystal
    if relaxed := answer.get("relaxed"):
        import numpy as np

        crystal = Crystals(
            crystal.counts, crystal.numbers, np.array(relaxed["frac"]), np.array([relaxed["cell"]])
        )
    energy = Energy(answer["status"], answer.get("reason", ""), answer.get("energy_ev"), crystal.n_atoms)
    return Result(str(path), "GPAW", f"PBE, {job.cutoff:g} eV", crystal, energy)


def _energy(energy: float, reason: str, crystal: Crystals) -> Energy:
    if not reason and not math.isfinite(energy):
        reason = f"its energy is {energy}"
    if reason:
        return Energy("not converged", reason, None, crystal.n_atoms)
    return Energy(DONE, "", energy, crystal.n_atoms)


READERS: dict[str, Callable[[Path], Result]] = {"vasp": _vasp, "qe": _qe, "gpaw": _gpaw, "job": _job}

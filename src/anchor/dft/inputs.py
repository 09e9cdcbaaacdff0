"""Inputs of the same calculations for people who run VASP, Quantum ESPRESSO or GPAW elsewhere."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from anchor.chemistry.elements import SYMBOLS
from anchor.dft.datasets import TAG, arguments
from anchor.dft.engine import SCRIPT
from anchor.dft.jobs import Job
from anchor.errors import InputError
from anchor.writing import OwnFiles, safe_name

Code = Literal["vasp", "qe", "gpaw"]
VASP_CUTOFF = 520.0
"""eV, as the Materials Project and OQMD: pseudopotentials of others need other cut-offs than GPAW's."""
QE_CUTOFF = 80.0
"""Ry, of wave functions: enough for the SSSP library's elements; densities take eight times as much."""
EV_PER_RY = 13.605693
SHELLS = {"d": 2, "f": 3}

WHAT_TO_ADD = {
    "vasp": "POTCAR: VASP's PBE_54 potentials as named in POTCAR.spec (licensed: pymatgen writes them where "
    "PMG_VASP_PSP_DIR is set); lanthanides with frozen 4f are the ones that end in _3 (_2 for Eu and Yb)",
    "qe": "pseudopotentials: one PBE file per element, named SYMBOL.upf, in the folder pseudo (for instance "
    "the SSSP efficiency library; lanthanides with frozen 4f are not in it)",
    "gpaw": "nothing: python gpaw_process.py job.json result.json, in an environment with GPAW; data sets "
    "that its collection lacks are made as README.txt says",
}


def write_inputs(jobs: Sequence[tuple[str, Job]], code: Code, out: Path) -> list[Path]:
    """One folder per job.

    Args:
        jobs: Name of the folder and job.
        code: For whom.
        out: Where; folders that are there already are refused.
    """
    folders = []
    for name, job in jobs:
        folder = out / safe_name(name)
        if folder.exists():
            raise InputError(f"{folder} is there already", "give another --out, or remove it")
        folder.mkdir(parents=True)
        {"vasp": _vasp, "qe": _qe, "gpaw": _gpaw}[code](job, folder)
        folders.append(folder)
    own = OwnFiles(out)
    own.put({own.name_for("README.txt"): _readme(jobs, code)})
    return folders


def _readme(jobs: Sequence[tuple[str, Job]], code: Code) -> str:
    lines = [f"{name}: {job.text}" for name, job in jobs]
    needed = sorted({symbol for _, job in jobs for symbol in job.generated})
    made = [f"gpaw dataset {' '.join(arguments(symbol))}" for symbol in needed] if code == "gpaw" else []
    rules = [
        "PBE; phases of one reaction share cut-off and k-point density; ferromagnetic starts only;",
        "U by OQMD's rule: on V, Cr, Mn, Fe, Co, Ni, Cu and actinides in phases with oxygen, nowhere else.",
    ]
    return "\n".join([*lines, "", *rules, f"To be added: {WHAT_TO_ADD[code]}.", *made, ""])


def _vasp(job: Job, folder: Path) -> None:
    from pymatgen.io.vasp import Kpoints
    from pymatgen.io.vasp.sets import MPStaticSet

    (structure,) = job.crystal.to_structures()
    incar: dict[str, Any] = {"ENCUT": VASP_CUTOFF, "ISMEAR": 0, "SIGMA": job.width, "LDAU": bool(job.hubbard)}
    if job.hubbard:
        incar["LDAUU"] = {"O": {s: u for s, _, u in job.hubbard}}
        incar["LDAUL"] = {"O": {s: SHELLS[shell] for s, shell, _ in job.hubbard}}
        incar["LDAUJ"] = {"O": {s: 0.0 for s, _, _ in job.hubbard}}
    incar["ISPIN"] = 2 if job.magnetic else 1
    if job.magnetic:
        incar["MAGMOM"] = {SYMBOLS[z]: m for z, m in zip(job.numbers, job.magnetic, strict=True)}
    if job.relax:
        incar |= {"IBRION": 2, "ISIF": 3, "NSW": 60, "EDIFFG": -0.02}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about potentials that are not here
        inputs = MPStaticSet(
            structure,
            user_incar_settings=incar,
            user_kpoints_settings=Kpoints.gamma_automatic(job.mesh),
            sort_structure=False,
        )
        inputs.write_input(folder, potcar_spec=True)


def _qe(job: Job, folder: Path) -> None:
    from ase.io.espresso import write_espresso_in

    (atoms,) = job.crystal.to_atoms()
    if job.magnetic:
        atoms.set_initial_magnetic_moments(job.magnetic)
    data: dict[str, Any] = {
        "control": {
            "calculation": "vc-relax" if job.relax else "scf",
            "pseudo_dir": "../pseudo",
            "prefix": job.formula.replace("(", "").replace(")", ""),
        },
        "system": {
            "ecutwfc": QE_CUTOFF,
            "ecutrho": 8 * QE_CUTOFF,
            "occupations": "smearing",
            "smearing": "fermi-dirac",
            "degauss": round(job.width / EV_PER_RY, 6),
        },
        "electrons": {"conv_thr": 1e-9},
    }
    cards = []
    if job.hubbard:
        cards = ["HUBBARD {ortho-atomic}"]
        shells = {"d": "3d", "f": "5f"}
        cards += [f"U {s}-{shells[shell]} {u:g}" for s, shell, u in job.hubbard]
    symbols = dict.fromkeys(SYMBOLS[z] for z in job.numbers)
    with (folder / "pw.in").open("w", encoding="utf-8") as file:
        write_espresso_in(
            file,
            atoms,
            input_data=data,
            pseudopotentials={s: f"{s}.upf" for s in symbols},
            kpts=job.mesh,
            koffset=(0, 0, 0),
            additional_cards=cards or None,
        )


def _gpaw(job: Job, folder: Path) -> None:
    question = {**job.to_dict(), "memory_bytes": 0, "generated_type": TAG}
    (folder / "job.json").write_text(json.dumps(question, indent=1) + "\n", encoding="utf-8")
    shutil.copy(SCRIPT, folder / SCRIPT.name)

"""One writer per kind of export; what a user must add to a calculation is said with it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anchor.dft.inputs import WHAT_TO_ADD, Code, write_inputs
from anchor.dft.jobs import Job
from anchor.dft.rules import settings_for
from anchor.errors import InputError, MissingDependencyError, nearest
from anchor.exports.chosen import Chosen
from anchor.formats import write
from anchor.formats.write import WRITERS
from anchor.outcomes.columns import EACH
from anchor.writing import check_place, replace_file, safe_name

PREFIX = "_anchor_"
"""Of fields that OPTIMADE does not define."""


@dataclass(frozen=True)
class Export:
    """A kind of export.

    Attributes:
        ending: Of the file that is written where no name is given; '': a folder.
        about: What comes out.
        write: Writes it to a place that is free.
        add: What a user must add; '' for nothing.
    """

    ending: str
    about: str
    write: Callable[[Chosen, Path, bool], None]
    add: str = ""


def _file(format: str, chosen: Chosen, path: Path, overwrite: bool) -> None:
    write(path, chosen.crystals, chosen.ids, chosen.numbers(), format=format, overwrite=overwrite)


def _cif(chosen: Chosen, path: Path, overwrite: bool) -> None:
    """A folder of files, one file of all, or an archive, by the ending."""
    kinds = {".cif": "cif", ".zip": "cif-zip"}
    _file(kinds.get(path.suffix, "cif-folder"), chosen, path, overwrite)


def _entries(chosen: Chosen, path: Path, _overwrite: bool) -> None:
    """pymatgen's ComputedStructureEntry: `monty.serialization.loadfn` reads them, PhaseDiagram takes them."""
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    numbers = chosen.numbers()
    documents = [
        ComputedStructureEntry(
            structure,
            float(energy),
            entry_id=id,
            parameters={"potential": chosen.potential},
            data={name: float(values[i]) for name, values in numbers.items() if np.isfinite(values[i])},
        ).as_dict()
        for i, (structure, energy, id) in enumerate(
            zip(chosen.crystals.to_structures(), chosen.energies(), chosen.ids, strict=True)
        )
    ]
    replace_file(path, json.dumps(documents) + "\n")


def optimade_structures(chosen: Chosen, modified: str) -> list[dict[str, Any]]:
    """OPTIMADE's resources of type structures, ours beside its own fields.

    Args:
        chosen: What goes out.
        modified: When it was made, as RFC 3339: 2026-11-15T12:00:00Z.
    """
    from pymatgen.io.optimade import OptimadeStructureAdapter

    found = []
    for structure, id, row in zip(chosen.crystals.to_structures(), chosen.ids, chosen.rows, strict=True):
        attributes = OptimadeStructureAdapter.get_optimade_structure(structure)["attributes"]
        attributes |= {"last_modified": modified, "immutable_id": id, "structure_features": []}
        own = {name: value for name, value in row.items() if isinstance(value, str | int | float)}
        own |= {f"energy_above_{hull}_hull_ev_per_atom": e for hull, e in (row.get(EACH) or {}).items()}
        attributes |= {f"{PREFIX}{name}": value for name, value in own.items() if name != "id"}
        found.append({"type": "structures", "id": id, "attributes": attributes})
    return found


def _optimade(chosen: Chosen, path: Path, _overwrite: bool) -> None:
    """The specification's JSON lines: a header, then a structure a line."""
    from datetime import UTC, datetime

    modified = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = {"x-optimade": {"meta": {"api_version": "1.1.0"}}}
    lines = [json.dumps(document) for document in (head, *optimade_structures(chosen, modified))]
    replace_file(path, "\n".join(lines) + "\n")


def _inputs(code: Code, chosen: Chosen, path: Path, _overwrite: bool) -> None:
    jobs = [
        (f"{safe_name(id)}-{formula}", Job.of(crystal, settings_for([formula])))
        for id, formula, crystal in zip(chosen.ids, chosen.crystals.formulas, chosen.crystals, strict=True)
    ]
    write_inputs(jobs, code, path)


def _atomate2(chosen: Chosen, path: Path, _overwrite: bool) -> None:
    """The Materials Project's double relaxation and static run of each, as jobflow's JSON."""
    try:
        from atomate2.vasp.flows.mp import MPGGADoubleRelaxStaticMaker
        from monty.json import MontyEncoder
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"flows of atomate2 need the package: {error}", "pip install atomate2, or export --as vasp"
        ) from error
    maker = MPGGADoubleRelaxStaticMaker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about potentials that are not here
        flows = [maker.make(structure) for structure in chosen.crystals.to_structures()]
    for flow, id in zip(flows, chosen.ids, strict=True):
        flow.append_name(f" {id}")
    replace_file(path, json.dumps(flows, cls=MontyEncoder) + "\n")


EXPORTS = {
    "cif": Export("", "a CIF each, in a folder; FILE.cif: all in one; FILE.zip: an archive", _cif),
    "extxyz": Export(".extxyz", "extended XYZ, for ASE, OVITO, chemiscope", partial(_file, "extxyz")),
    "ase-db": Export(".db", "ASE's database: ase db FILE", partial(_file, "ase")),
    "parquet": Export(".parquet", "Parquet with LeMat-Bulk's columns", partial(_file, "parquet")),
    "csv": Export(".csv", "CSV with CDVAE's columns and the CIF of each", partial(_file, "csv")),
    "json": Export(".json", "pymatgen Structures", partial(_file, "json")),
    "entries": Export(".json", "pymatgen ComputedStructureEntries, with the potential's energies", _entries),
    "optimade": Export(".jsonl", "OPTIMADE's JSON lines", _optimade),
    "vasp": Export("", "INCAR, KPOINTS, POSCAR, POTCAR.spec", partial(_inputs, "vasp"), WHAT_TO_ADD["vasp"]),
    "qe": Export("", "pw.in of Quantum ESPRESSO each", partial(_inputs, "qe"), WHAT_TO_ADD["qe"]),
    "gpaw": Export("", "a job for GPAW each", partial(_inputs, "gpaw"), WHAT_TO_ADD["gpaw"]),
    "atomate2": Export(
        ".json",
        "flows of the Materials Project's GGA relaxation, for jobflow",
        _atomate2,
        "POTCARs where the flows run (PMG_VASP_PSP_DIR), and atomate2's settings of your cluster",
    ),
}  # fmt: skip
"""By the name that `--as` takes."""


def export_kind(kind: str | None, out: Path | None) -> str:
    """Which export is meant: by its name, or by the ending of the file; refused if they contradict.

    Raises:
        InputError: They do, or neither says anything.
    """
    if kind is not None and kind not in EXPORTS:
        raise InputError(f"cannot export as '{kind}'", nearest(kind, EXPORTS))
    if out is None:
        return kind or "cif"
    ending = out.suffix.lower()
    if kind is None:
        return _by_ending(ending, out)
    allowed = _endings(kind)
    if ending not in allowed:
        ways = ", ".join(f"NAME{e}" if e else "a name without ending (a folder)" for e in allowed)
        raise InputError(f"--as {kind} and --out {out} contradict each other", f"give --out as {ways}")
    return kind


def _endings(kind: str) -> tuple[str, ...]:
    if kind == "cif":
        return ("", ".cif", ".zip")
    format = {"ase-db": "ase"}.get(kind, kind)
    if format in WRITERS and kind != "json":
        return WRITERS[format][0]
    return (EXPORTS[kind].ending,)


def _by_ending(ending: str, out: Path) -> str:
    for kind in EXPORTS:
        if ending in _endings(kind):
            return kind
    known = sorted({e for kind in EXPORTS for e in _endings(kind) if e})
    raise InputError(
        f"cannot tell a format from the ending of {out.name}", f"known endings: {', '.join(known)}"
    )


def export(chosen: Chosen, kind: str, out: Path, *, overwrite: bool = False) -> Path:
    """Write crystals as one of `EXPORTS`; returns the place."""
    check_place(out, overwrite=overwrite)
    EXPORTS[kind].write(chosen, out, overwrite)
    return out

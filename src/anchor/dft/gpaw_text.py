"""Text output of GPAW: the crystal, the energy and the settings that it ends with.

GPAW changed its output in 2026: ASE reads the older one, and the tables of the newer one are read here.
"""

from __future__ import annotations

import re
from pathlib import Path

import ase.io
from ase import Atoms

LOGOS = (r"|__ |  _|___|_____|", r"|__||  | ||/\|")
"""A line of the older and of the newer drawing of its name."""
SITE = re.compile(r"^\| *\d+ \| +([A-Z][a-z]?) \|" + r" +(-?[\d.]+) \|" * 3, re.M)
VECTOR = re.compile(r"^\| +(yes|no) \|" + r" +(-?[\d.]+) \|" * 3, re.M)
SITES, CELL = re.compile(r"^Atoms +#.*$", re.M), re.compile(r"^Unit cell +#.*$", re.M)
ENERGY = re.compile(r"^ *Extrapolated: +(-?[\d.]+)", re.M)
CUTOFF = re.compile(r"^(?:Cutoff:| *ecut:|.*PW\(ecut=) *([\d.]+)", re.M)
FUNCTIONAL = re.compile(r"^ *xc functional:\s+name: (\w+)|^ *xc(?:=XC\(name='|: )(\w+)", re.M)


def is_gpaw(head: str) -> bool:
    """Whether the first lines of a file are GPAW's."""
    return any(logo in head for logo in LOGOS)


def read_gpaw(path: Path) -> tuple[Atoms, float, str, str]:
    """Atoms at the end, energy of the cell (eV), settings, and why the energy does not count ('': it does).

    Raises:
        ValueError: Something of it is missing.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    xc, cutoff = FUNCTIONAL.search(text), CUTOFF.search(text)
    name = next((part for part in xc.groups() if part), "unknown") if xc else "unknown"
    settings = f"{name}, {float(cutoff[1]):g} eV" if cutoff else name
    reason = (
        "" if "onverged" in text and "Did not converge" not in text else "its electrons are not converged"
    )
    if LOGOS[0] in text:
        atoms = ase.io.read(path, format="gpaw-out")
        assert isinstance(atoms, Atoms)
        return atoms, float(atoms.get_potential_energy()), settings, reason
    energies = ENERGY.findall(text)
    if not energies:
        raise ValueError("it has no energy")
    return _atoms(text), float(energies[-1]), settings, reason


def _atoms(text: str) -> Atoms:
    """The last tables of atoms and of cell vectors."""
    parts = []
    for title, row in ((SITES, SITE), (CELL, VECTOR)):
        found = list(title.finditer(text))
        if not found:
            raise ValueError("it has no atoms or no cell")
        lines = text[found[-1].end() :].lstrip("\n").split("\n\n")[0]
        parts.append(row.findall(lines))
    sites, vectors = parts
    return Atoms(
        [symbol for symbol, *_ in sites],
        positions=[[float(x) for x in place] for _, *place in sites],
        cell=[[float(x) for x in vector] for _, *vector in vectors],
        pbc=[periodic == "yes" for periodic, *_ in vectors],
    )

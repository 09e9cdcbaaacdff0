"""Rules by which the settings of a calculation follow from the elements of a reaction.

All phases of a reaction share one `Settings`, so that errors of cut-off, k-points and data sets cancel. What
depends on a phase alone (spin, U) follows from its own elements by the same rules everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from anchor.chemistry.elements import NUMBER
from anchor.chemistry.formula import parse_amounts

VERSION = 1
"""Goes up whenever a rule changes numbers: energies of other versions are not used."""

SOFT_CUTOFF, HARD_CUTOFF = 400.0, 500.0
"""eV. Reaction energies of soft elements move by less than 2 meV/atom from 400 to 500 eV; orbitals without
nodes (1s, 2p, 3d) need more."""
HARD = frozenset(["H", "Li", "Be", "B", "C", "N", "O", "F", "V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn"])
"""Elements that ask for `HARD_CUTOFF` in every phase of a reaction."""
IONIC, COVALENT, METALLIC = 1000.0, 1500.0, 2000.0
"""k-points times atoms of the cell: insulators need few, metals many."""
IONIC_ANIONS = frozenset(["O", "F", "Cl", "Br", "I"])
COVALENT_ANIONS = frozenset(["H", "N", "P", "As", "S", "Se", "Te"])
"""Of reactions all of whose phases have an anion; a phase without one (an alloy, an element) asks for
`METALLIC`."""
WIDTH = 0.05
"""eV, Fermi smearing; energies are extrapolated to zero."""

MAGNETIC = {"V": 3.0, "Cr": 5.0, "Mn": 5.0, "Fe": 4.0, "Co": 3.0, "Ni": 2.0, "U": 3.0, "Np": 4.0, "Pu": 5.0}
"""Elements that ask for spin, and the moment (μB) each starts with, all parallel. Antiferromagnets are
missed, and so are the rare moments of other elements; frozen 4f shells carry none."""

HUBBARD = {
    "V": ("d", 3.1), "Cr": ("d", 3.5), "Mn": ("d", 3.8), "Fe": ("d", 4.0), "Co": ("d", 3.3),
    "Ni": ("d", 6.4), "Cu": ("d", 4.0), "Th": ("f", 4.0), "U": ("f", 4.0), "Np": ("f", 4.0),
    "Pu": ("f", 4.0),
}  # fmt: skip
"""OQMD's rule: U (eV) on these in every phase that holds oxygen. The Materials Project has other values, and
U in fluorides and on Mo and W as well; ours is OQMD's, so a distance to its hull compares like with like."""

FROZEN_4F = {
    **{s: (f"4f{n}", 1) for n, s in enumerate(["Ce", "Pr", "Nd", "Pm", "Sm"], start=1)},
    "Eu": ("4f7", 0),
    **{s: (f"4f{n}", 1) for n, s in enumerate(["Gd", "Tb", "Dy", "Ho", "Er", "Tm"], start=7)},
    "Yb": ("4f14", 0),
    "Lu": ("4f14", 1),
}
"""Lanthanides: the frozen shell and the electrons in 5d. Trivalent but Eu and Yb, as OQMD has them."""
WITHOUT_DATA = frozenset(["Tc", "Th", "Pa", "U", "Np", "Pu"])
"""Elements whose data sets GPAW's collection lacks; they are generated (Ac cannot be)."""


@dataclass(frozen=True)
class Settings:
    """What all phases of a reaction share.

    Attributes:
        cutoff: Of the plane waves, eV.
        density: k-points times atoms of the cell.
        width: Of the Fermi smearing, eV.
    """

    cutoff: float
    density: float
    width: float = WIDTH

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settings_for(formulas: Iterable[str]) -> Settings:
    """The settings of a reaction between these phases."""
    phases = [frozenset(parse_amounts(formula)) for formula in formulas]
    elements = frozenset().union(*phases)
    return Settings(HARD_CUTOFF if elements & HARD else SOFT_CUTOFF, max(map(_density, phases)))


def _density(elements: frozenset[str]) -> float:
    if elements & IONIC_ANIONS:
        return IONIC
    return COVALENT if elements & COVALENT_ANIONS and len(elements) > 1 else METALLIC


def hubbard(elements: Iterable[str]) -> dict[str, tuple[str, float]]:
    """Shell and U (eV) by element in a phase of these elements."""
    found = frozenset(elements)
    return {s: HUBBARD[s] for s in sorted(found & HUBBARD.keys())} if "O" in found else {}


def moments(elements: Iterable[str]) -> dict[str, float]:
    """Moments (μB) that the atoms of a phase start with; empty: no spin."""
    return {s: MAGNETIC[s] for s in sorted(frozenset(elements) & MAGNETIC.keys())}


def mixes_hubbard(formulas: Iterable[str]) -> list[str]:
    """Elements with U in some phases of a reaction and without in others: their energies do not cancel."""
    phases = [frozenset(parse_amounts(formula)) for formula in formulas]
    with_u = frozenset().union(*(hubbard(phase) for phase in phases))
    plain = frozenset().union(*(phase for phase in phases if not hubbard(phase)))
    return sorted(with_u & plain)


def valence_electrons(symbol: str) -> int:
    """About how many electrons of an atom a data set treats: for estimates of the cost."""
    z = NUMBER[symbol]
    if symbol in FROZEN_4F:
        return 11
    core = max(c for c in (0, 2, 10, 18, 36, 54, 86) if c < z)
    electrons = z - core
    if z > 71:  # behind the lanthanides: 4f is core
        electrons -= 14 if core == 54 else 0
    metal = z > 18 or z in (3, 4, 11, 12)
    return electrons + (8 if core > 2 else 2) if metal and electrons <= 6 else electrons

"""Molecules that templates put where an ion belongs.

A template of an ammonium salt takes any element for nitrogen. CH4 in its place is no cation but methane, held
in a salt that would let it go; PH4 and its kin are cations, and rare ones.
"""

from __future__ import annotations

import numpy as np

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals

NEUTRAL = {"C": "methane", "Si": "silane", "Ge": "germane", "Sn": "stannane"}
"""Central atoms whose XH4 is a closed molecule, never an ion."""
RARE = ("P", "As", "Sb")
"""Central atoms whose XH4+ is known in a handful of salts only."""
BOND = {"C": 1.25, "Si": 1.65, "Ge": 1.7, "Sn": 1.9, "P": 1.6, "As": 1.7, "Sb": 1.9}
"""Å, longest bond to hydrogen; molecules have 1.09, 1.48, 1.53, 1.70, 1.42, 1.52 and 1.70."""
H_H = 1.3
"""Å, hydrogen atoms closer than this to each other are no ligands of one centre."""


def hydrides(crystal: Crystals) -> list[str]:
    """Symbols of the elements X that stand in tetrahedral XH4 groups with no other hydrogen atom near."""
    symbols = [SYMBOLS[z] for z in crystal.numbers.tolist()]
    if "H" not in symbols or not set(symbols) & set(BOND):
        return []
    (structure,) = crystal.to_structures()
    found = set()
    for i, symbol in enumerate(symbols):
        if symbol in BOND:
            near = [n for n in structure.get_neighbors(structure[i], BOND[symbol]) if n.specie.symbol == "H"]
            places = np.array([n.coords for n in near]).reshape(-1, 3)
            apart = np.linalg.norm(places[:, None] - places[None], axis=2)[np.triu_indices(len(near), 1)]
            if len(near) == 4 and (apart > H_H).all():
                found.add(symbol)
    return sorted(found)

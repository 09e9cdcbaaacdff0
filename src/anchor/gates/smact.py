"""MatterGen's validity of compositions (SMACT) and of structures (distances and volume)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import gcd

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts
from anchor.errors import MissingDependencyError
from anchor.gates.base import Verdicts

LEAST_DISTANCE = 0.5  # Å
LEAST_VOLUME = 0.1  # Å³


def composition_fault(atoms: Mapping[str, int]) -> str:
    """Why SMACT's test refuses a composition, '' if it is valid.

    Pure elements and alloys of metals are valid. Anything else needs one oxidation state per element (SMACT's
    default table, the one that MatterGen gets) that balances the reduced formula, with every cation less
    electronegative than every anion; where an electronegativity is unknown that is not asked.
    """
    divisor = gcd(*atoms.values())
    return _fault(tuple(sorted((symbol, n // divisor) for symbol, n in atoms.items())))


@lru_cache(maxsize=100_000)
def _fault(atoms: tuple[tuple[str, int], ...]) -> str:
    try:
        import smact
    except ImportError:
        raise MissingDependencyError(
            "MatterGen's composition validity needs the package smact", "pip install smact"
        ) from None
    symbols = [symbol for symbol, _ in atoms]
    if len(symbols) == 1 or set(symbols) <= set(smact.metals):
        return ""
    unknown = [s for s in symbols if s not in smact.element_dictionary()]
    elements = {s: smact.Element(s) for s in symbols if s not in unknown}
    unknown += [s for s, element in elements.items() if not element.oxidation_states]
    if unknown:
        return f"SMACT has no oxidation states of {', '.join(unknown)}"
    counts = [n for _, n in atoms]
    electronegativity = [elements[s].pauling_eneg for s in symbols]
    balanced = False
    for states in product(*(elements[s].oxidation_states for s in symbols)):
        if sum(state * n for state, n in zip(states, counts, strict=True)):
            continue
        balanced = True
        if None in electronegativity or anions_attract_more(states, electronegativity):
            return ""
    return "electronegativities are the wrong way round" if balanced else "no charge-neutral oxidation states"


def anions_attract_more(states: tuple[int, ...], electronegativity: list[float]) -> bool:
    """Pauling's test: every cation is less electronegative than every anion."""
    cations = [x for state, x in zip(states, electronegativity, strict=True) if state > 0]
    anions = [x for state, x in zip(states, electronegativity, strict=True) if state < 0]
    return max(cations, default=-np.inf) < min(anions, default=np.inf)


def structures_valid(crystals: Crystals, contacts: Contacts) -> NDArray[np.bool_]:
    """Whether no two atoms are closer than 0.5 Å and the cell has at least 0.1 Å³.  # [n]"""
    shortest = np.full(len(crystals), np.inf)
    np.minimum.at(shortest, contacts.crystal, contacts.distance)
    return (shortest >= LEAST_DISTANCE) & (crystals.volume >= LEAST_VOLUME)


@dataclass(frozen=True)
class SmactGate:
    """Both validities of MatterGen.

    Attributes:
        as_published: Do not ask an atom's distance from its own images, as MatterGen.
    """

    as_published: bool = False
    label = "MatterGen: SMACT, distances and volume"

    def verdicts(self, crystals: Crystals, contacts: Contacts) -> Verdicts:
        """As `anchor.gates.base.Gate` asks for them."""
        spans = pairwise(crystals.offsets.tolist())
        cells = [Counter(SYMBOLS[z] for z in crystals.numbers[a:b].tolist()) for a, b in spans]
        faults = [composition_fault(atoms) for atoms in cells]
        composition = np.array([not fault for fault in faults], dtype=bool)
        structure = structures_valid(crystals, contacts.between_sites if self.as_published else contacts)
        too_close = ["" if ok else "atoms too close, or no volume" for ok in structure]
        return Verdicts(
            composition & structure,
            ["; ".join(filter(None, both)) for both in zip(faults, too_close, strict=True)],
            {
                "comp_validity": composition,
                "comp_fault": faults,
                "structure_validity": structure,
                "structure_comp_validity": composition & structure,
            },
        )

"""Ytterbium, which both databases have wrong.

OQMD and the Materials Project treat it as divalent. Compounds of the trivalent element that exist lie far
above their hulls (YbP by 0.34, Yb2Se3 by 0.41, Yb2S3 by 0.5 eV/atom) or are not there: at the composition of
Yb2O3 the hulls are YbO and O2, 0.9 eV/atom above where experiment has Yb2O3 (−3.76 eV/atom), at YbN Yb3N2 and
Yb4N5, and at YbF3 OQMD's is YbF2 and F2. A search finds such a hole.
"""

from __future__ import annotations

from anchor.chemistry.charge import reachable_charges
from anchor.chemistry.formula import parse_amounts

YTTERBIUM = "Yb"
"""Left out of searches by default."""
TRIVALENT_WITH = ("O", "N", "F")
"""Anions beside which ytterbium is trivalent: nothing that holds them can be told on these hulls."""


def misplaced_ytterbium(formula: str) -> str:
    """Why the hulls cannot tell whether a compound of ytterbium is stable; '' if they can."""
    amounts = parse_amounts(formula)
    if YTTERBIUM not in amounts:
        return ""
    for anion in TRIVALENT_WITH:
        if anion in amounts:
            return (
                f"holds ytterbium with {anion}: compounds of the trivalent element, which would compete, are "
                "missing from both databases or stand too high"
            )
    if _trivalent(amounts):
        return "holds trivalent ytterbium, whose known compounds lie up to 0.5 eV/atom above the hulls"
    return ""


def _trivalent(amounts: dict[str, int]) -> bool:
    """Whether charges balance with some Yb(III), and not with Yb(II) alone, all others in common states."""
    from pymatgen.core import Element

    ytterbium, others = amounts[YTTERBIUM], {0}
    for symbol, n in amounts.items():
        if symbol != YTTERBIUM:
            charges = reachable_charges(Element(symbol).common_oxidation_states, n)[n]
            others = {total + charge for total in others for charge in charges}
    return -2 * ytterbium not in others and any(-2 * ytterbium - n in others for n in range(1, ytterbium + 1))

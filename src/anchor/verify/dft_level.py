"""Level 6: real DFT. The claimed crystal and its competing phases on both hulls, PBE, the same settings.

GPAW runs in a process of its own, minutes per claim; without it a claim whose energies are known already is
still judged, and any other is left undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from anchor.dft.engine import Calculator, gpaw_python
from anchor.dft.products import Library
from anchor.dft.rules import VERSION
from anchor.dft.stability import MOST_SECONDS, WITHIN, Found, Stability
from anchor.errors import AnchorError, MissingDependencyError
from anchor.verify.claims import Claim, Context, Verdict

SUMMARY = {
    "confirmed": "DFT confirms it",
    "within the error": "DFT does not refute it: on the limit within twice its error",
    "refuted": "DFT refutes it",
}


class RealDft:
    """Distance to both hulls by DFT.

    Args:
        calculator: None: of the cache folder, with the usual limits.
        most_seconds: Competing phases of larger estimated CPU time go by the databases' differences.
    """

    number, name, chunk = 6, "DFT", 1

    def __init__(self, calculator: Calculator | None = None, most_seconds: float = MOST_SECONDS) -> None:
        self._given = calculator
        self._most_seconds = most_seconds

    @cached_property
    def _calculator(self) -> Calculator:
        try:
            gpaw_python()
        except MissingDependencyError:
            return self._given or Calculator(known_only=True)
        return self._given or Calculator()

    def settings(self, context: Context) -> dict[str, Any]:
        """A verdict that had to do without GPAW is made again when it is there."""
        return {
            "rules": VERSION,
            "within_ev_per_atom": WITHIN,
            "most_seconds": self._most_seconds,
            "gpaw": not self._calculator.known_only,
            "potential": context.potential.name,
        }

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        potential = context.potential
        library = Library(potential.name, potential.checkpoint_hash, context.judge, context.reference)
        stability = Stability(context.hull, library, self._calculator, most_seconds=self._most_seconds)
        verdicts = []
        for claim in claims:
            try:
                verdicts.append(judged(claim, stability(claim.crystal)))
            except AnchorError as error:  # another process calculates the same, a data set cannot be made
                verdicts.append(Verdict(claim.id, self.number, None, error.message))
        return verdicts


def judged(claim: Claim, found: Found) -> Verdict:
    """The verdict on a claim by what DFT found."""
    answer = found.verdict(claim.limit)
    evidence = found.to_dict()
    if answer == "unknown":
        wanting = [p for d in found.distances for p in d.products if p.energy is None]
        why = "; ".join(dict.fromkeys(f"{p.formula} {p.status}: {p.how}" for p in wanting))
        reason = why if found.energy.energy is not None else f"{found.formula} {found.energy.text}"
        return Verdict(claim.id, 6, None, reason or "no hull covers its elements", evidence)
    distances = ", ".join(f"{d.database} {d.above:+.3f}" for d in found.distances if d.above is not None)
    mixed = "; some competing phases by the databases' energy differences" if found.mixed else ""
    reason = f"{SUMMARY[answer]} ({distances} eV/atom, error {WITHIN / 2:.3f}{mixed})"
    return Verdict(claim.id, 6, answer != "refuted", reason, evidence, cpu_seconds=found.cpu_seconds)

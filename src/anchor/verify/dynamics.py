"""Level 5, dynamics: a find must be a minimum, not a saddle that symmetry has hidden.

The find is relaxed tightly and its phonons are computed (`anchor.verify.phonons`). Where a mode is imaginary
beyond what known stable compounds show, the crystal is moved along it and relaxed. If that leads lower by
more than a negligible amount, the find goes on as what it fell into, and that is attacked in turn; it fails
where this has no end, or no place in a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.outcomes.columns import ENERGY
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.rows import each_hull
from anchor.outcomes.table import Outcomes
from anchor.random import generator
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.heating import Heating
from anchor.verify.phonons import DISPLACEMENT, SHORTEST, Phonons, Supercell, primitive

TIGHT = Relaxing(cell=True, max_steps=300, fmax=0.005, symmetry=True)
"""Forces that are left over shift frequencies; symmetry is kept, or its noise would be followed down."""
FALLING = Relaxing(cell=True, max_steps=300, fmax=0.01)
IMAGINARY = 0.3
"""THz by which modes may be imaginary."""
NEGLIGIBLE = 0.002
"""eV/atom. A distortion that gains less is within what potentials and zero-point motion blur."""
LARGEST = (0.1, 0.25)
"""Å, by which the atom that moves most is displaced along a mode."""
FOLLOWED = 2
"""Imaginary modes, of different frequency, that are followed, the lowest first."""
ROUNDS = 2
"""Times that a find may fall into something lower before it is given up."""
FITS = 40
"""Atoms of the largest distorted cell that goes on as the find; it would have to be relaxed by DFT."""
MOST_FOLLOWED = 96
"""Atoms of the largest distorted cell that is relaxed at all."""
MOST_ATOMS = 200_000
"""Atoms of all displaced supercells of a find together: four minutes of MatterSim-1M."""

MISSING = "phonopy is not installed: pip install 'anchor-crystals[verify]'"


class Dynamics:
    """The level.

    Args:
        md: Also keep what is a minimum at 300 K for two picoseconds (`anchor.verify.heating`).
    """

    number, name, chunk = 5, "dynamics", 1

    def __init__(self, *, md: bool = False) -> None:
        self.md = md

    def settings(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        return {
            "tight": asdict(TIGHT),
            "falling": asdict(FALLING),
            "supercell_angstrom": SHORTEST,
            "displacement_angstrom": DISPLACEMENT,
            "imaginary_thz": IMAGINARY,
            "negligible_ev_per_atom": NEGLIGIBLE,
            "largest_angstrom": list(LARGEST),
            "followed": FOLLOWED,
            "rounds": ROUNDS,
            "atoms": [FITS, MOST_FOLLOWED, MOST_ATOMS],
            "md": asdict(Heating()) if self.md else None,
        }

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        if find_spec("phonopy") is None:
            return [Verdict(claim.id, self.number, None, MISSING) for claim in claims]
        return [self._attack(claim, context) for claim in claims]

    def _attack(self, claim: Claim, context: Context) -> Verdict:
        now = claim
        rounds: list[dict[str, Any]] = []
        for fallen in range(ROUNDS + 1):
            stand = Stand.of(now, context.judge)
            if isinstance(stand, str):
                return Verdict(claim.id, self.number, None, stand, {"rounds": rounds})
            rounds.append(stand.evidence())
            if stand.phonons.lowest >= -IMAGINARY:
                note = f"lowest mode {thz(stand.phonons.lowest)}"
                return self._minimum(claim, now, stand, note, rounds, context)
            fall = Fall.of(stand, context, (claim.hash, fallen))
            rounds[-1] |= fall.evidence()
            if fall.gain < NEGLIGIBLE:
                gain = f"{1000 * fall.gain:.1f} meV/atom"
                note = f"mode {thz(stand.phonons.lowest)} followed: it gains {gain}, which is negligible"
                return self._minimum(claim, now, stand, note, rounds, context)
            if fall.why_not:
                return Verdict(claim.id, self.number, False, fall.why_not, {"rounds": rounds})
            now = now.moved(fall.crystal, fall.energy, fall.above)
        reason = f"fell {ROUNDS + 1} times along imaginary modes and is no minimum yet"
        return Verdict(claim.id, self.number, False, reason, {"rounds": rounds})

    def _minimum(
        self,
        claim: Claim,
        now: Claim,
        stand: Stand,
        note: str,
        rounds: list[dict[str, Any]],
        context: Context,
    ) -> Verdict:
        """The find, or what it fell into, goes no lower by its modes; what does heat do to it?"""
        evidence: dict[str, Any] = {"rounds": rounds}
        replacement = None if now is claim else now
        if replacement is not None:
            note = f"replaced, {1000 * (claim.energy - now.energy):.1f} meV/atom lower; {note}"
        if self.md:
            heated = Heating()(stand.crystal, stand.energy, context, stream=("heating", claim.hash))
            evidence["md"] = heated.evidence()
            note = f"{note}; {heated.note}"
            if not heated.stays:
                return Verdict(claim.id, self.number, False, note, evidence, replacement)
        return Verdict(claim.id, self.number, True, note, evidence, replacement)


@dataclass(frozen=True, eq=False)
class Stand:
    """Where a claim stands: relaxed tightly, with its phonons.

    Attributes:
        crystal: Primitive.  # 1
        energy: eV/atom.
        phonons: Of it.
        displaced: Supercells that were computed for them, and atoms in all.
    """

    crystal: Crystals
    energy: float
    phonons: Phonons
    displaced: tuple[int, int]

    @classmethod
    def of(cls, claim: Claim, judge: Judge) -> Stand | str:
        """The stand, or why there is none."""
        (table,) = replace(judge, relaxing=TIGHT).relaxed([primitive(claim.crystal)])
        if not _per_atom(table) <= claim.energy + NEGLIGIBLE:  # more symmetric than the claim, and higher
            (table,) = replace(judge, relaxing=replace(TIGHT, symmetry=False)).relaxed([claim.crystal])
        energy = _per_atom(table)
        if not np.isfinite(energy):
            return f"not relaxed tightly: {table.texts('reason')[0]}"
        crystal = table.crystals[0]
        supercell = Supercell.of(crystal)
        work = len(supercell.displaced), supercell.displaced.n_atoms
        if work[1] > MOST_ATOMS:
            return f"too large: {work[0]} displaced supercells of {work[1] // work[0]} atoms"
        forces = judge.relaxer.evaluate(supercell.displaced).forces
        if not np.isfinite(forces).all():
            return f"{judge.potential.name} gave no forces in a displaced supercell"
        return cls(crystal, energy, supercell.phonons(forces), work)

    def evidence(self) -> dict[str, Any]:
        symbol, number = space_group(self.crystal)
        phonons = self.phonons
        found = np.argwhere(phonons.judged == phonons.lowest)
        return {
            "spacegroup": symbol,
            "spacegroup_number": number,
            "atoms": int(self.crystal.counts[0]),
            "energy_ev_per_atom": self.energy,
            "supercell": list(phonons.multiples),
            "displaced_supercells": self.displaced[0],
            "displaced_atoms": self.displaced[1],
            "lowest_thz": phonons.lowest if len(found) else None,
            "at_q": phonons.q[found[0][0]].round(6).tolist() if len(found) else None,
            "imaginary_modes": int((phonons.judged < -IMAGINARY).sum()),
        }


@dataclass(frozen=True, eq=False)
class Fall:
    """The lowest that a crystal falls to along its imaginary modes.

    Attributes:
        gain: eV/atom; not positive where it falls nowhere.
        crystal: What it fell into.  # 1
        energy: Of that, eV/atom.
        above: Each hull, eV/atom.
        why_not: Why the claim cannot go on as that crystal, or ''.
        starts: Distorted crystals that were relaxed.
    """

    gain: float
    crystal: Crystals
    energy: float
    above: dict[str, float]
    why_not: str
    starts: int

    @classmethod
    def of(cls, stand: Stand, context: Context, stream: tuple[str | int, ...]) -> Fall:
        starts = distortions(stand.phonons, context.seed, stream)
        small = [crystal for crystal in starts if crystal.n_atoms <= MOST_FOLLOWED]
        lowest = thz(stand.phonons.lowest)
        if not small:
            why = f"imaginary mode {lowest}, whose cell of {starts[0].n_atoms} atoms is too large to follow"
            return cls(np.inf, stand.crystal, stand.energy, {}, why, 0)
        table = replace(context.judge, relaxing=FALLING)(Crystals.concatenate(small))
        energies = table.numbers(ENERGY) / table.crystals.counts
        if not np.isfinite(energies).any():
            why = f"imaginary mode {lowest}, along which no relaxation ends"
            return cls(np.inf, stand.crystal, stand.energy, {}, why, len(small))
        best = int(np.nanargmin(energies))
        crystal, energy = table.crystals[best], float(energies[best])
        gain = stand.energy - energy
        what = f"imaginary mode {lowest} leads {1000 * gain:.0f} meV/atom lower"
        why = ""
        if crystal.n_atoms > FITS:
            why = f"{what} into a cell of {crystal.n_atoms} atoms"
        elif not table.flags("bonds_ok")[best]:
            why = f"{what}, to bonds that no crystal has"
        above = {name: value for name, value in each_hull(table)[best].items() if value is not None}
        return cls(gain, crystal, energy, above, why, len(small))

    def evidence(self) -> dict[str, Any]:
        found: dict[str, Any] = {"followed": self.starts, "too_large": not self.starts}
        if np.isfinite(self.gain):
            found |= {
                "gain_ev_per_atom": self.gain,
                "fell_into": space_group(self.crystal)[0],
                "fell_into_atoms": self.crystal.n_atoms,
            }
        return found


def distortions(phonons: Phonons, seed: int, stream: tuple[str | int, ...]) -> list[Crystals]:
    """Starts along the softest modes: each as it is, and mixed at random with those it is degenerate with.

    Where the wave is not real, the random weights are also random phases.
    """
    found = []
    for number, (row, bands) in enumerate(phonons.soft(-IMAGINARY)[:FOLLOWED]):
        random = generator(seed, "dynamics", *stream, number)
        mixed = {band: complex(*random.normal(size=2)) for band in bands}
        for weights, largest in zip(({bands[0]: 1.0 + 0j}, mixed), LARGEST, strict=True):
            found.append(phonons.distorted(row, weights, largest=largest))
    return found


def _per_atom(table: Outcomes) -> float:
    """Energy of the one crystal, eV/atom."""
    return float(table.numbers(ENERGY)[0]) / table.crystals.n_atoms


def thz(frequency: float) -> str:
    """'2.31 THz', '1.20i THz'."""
    return f"{abs(frequency):.2f}{'i' if frequency < 0 else ''} THz"

"""Known reactions to measure the error of a method on: compounds of OQMD against what they decompose into.

The list is drawn once by a seeded rule that looks at formulas, cells and OQMD's energies only, and written
down before anything is calculated (`benchmarks/dft-reactions.json`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.dft.jobs import Job
from anchor.dft.rules import FROZEN_4F, MAGNETIC, WITHOUT_DATA, Settings, hubbard, settings_for
from anchor.hull.databases import dft_hull
from anchor.hull.simplex import SystemHull
from anchor.random import generator
from anchor.reference.reference import Reference, load_reference

QUOTAS = {
    "halide": 8, "chalcogenide": 8, "oxide": 6, "pnictide": 7, "intermetallic": 6, "magnetic": 3,
    "lanthanide": 2,
}  # fmt: skip
"""Reactions of each chemistry: 40 in all."""
LARGEST = 8
"""Atoms of the largest cell of a reaction."""
SAME_ENERGY = 1e-3
"""eV/atom: a reference crystal this near the hull's energy of its formula is the phase on the hull."""
CHEAPER_HALF = 0.5
"""Of each chemistry the reactions of lower estimated cost are drawn from: small and symmetric cells."""
LISTS = frozenset(("icsd", "cod", "mp"))
"""A compound is known if one of these lists it."""


@dataclass(frozen=True)
class Reaction:
    """A compound and what it decomposes into, all of them reference crystals.

    Attributes:
        formula: Of the compound.
        chemistry: Key of `QUOTAS`.
        crystal: Its id, as 'oqmd-1234'.
        products: Formula, id and atomic fraction of each.
        oqmd: Energy of the reaction, eV/atom of compound; negative: stable.
    """

    formula: str
    chemistry: str
    crystal: str
    products: tuple[tuple[str, str, float], ...]
    oqmd: float

    @property
    def settings(self) -> Settings:
        return settings_for([self.formula, *(formula for formula, _, _ in self.products)])

    def crystals(self, reference: Reference) -> Crystals:
        """The compound, then its products."""
        rows = [crystal_row(reference, name) for name in (self.crystal, *(p[1] for p in self.products))]
        return reference.crystals[rows]

    def jobs(self, reference: Reference) -> list[Job]:
        """The compound's energy, then its products'."""
        return [Job.of(crystal, self.settings) for crystal in self.crystals(reference)]

    def energy(self, energies: list[float]) -> float:
        """Of the reaction, eV/atom, from energies per atom in the order of `jobs`."""
        return energies[0] - sum(p[2] * e for p, e in zip(self.products, energies[1:], strict=True))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Reaction:
        return cls(**{**row, "products": tuple((f, i, a) for f, i, a in row["products"])})


def crystal_row(reference: Reference, name: str) -> int:
    """Row of a reference crystal by its id."""
    return int(np.flatnonzero(reference.ids == name)[0])


def chemistry(elements: frozenset[str]) -> str:
    """Key of `QUOTAS`: the first that fits."""
    if elements & MAGNETIC.keys():
        return "magnetic"
    if elements & FROZEN_4F.keys():
        return "lanthanide"
    for name, anions in (
        ("oxide", "O"),
        ("halide", "F Cl Br I"),
        ("chalcogenide", "S Se Te"),
        ("pnictide", "N P As Sb Bi"),
    ):
        if elements & frozenset(anions.split()):
            return name
    return "intermetallic"


def candidates(reference: Reference) -> Iterator[Reaction]:
    """All reactions that the rule allows, in the order of the hull's list."""
    hull = dft_hull("oqmd")
    phases = hull.index.phases
    small = _small_crystals(reference)
    for row in np.flatnonzero((np.count_nonzero(phases.numbers, axis=1) == 3) & (phases.energies < 0)):
        formula = phases.formula(int(row))
        system = tuple(z for z in phases.numbers[row].tolist() if z)
        elements = frozenset(SYMBOLS[z] for z in system)
        if formula not in small or elements & {*WITHOUT_DATA, "Ac"}:
            continue
        fractions, energies, at = hull.index.gather(system)
        others = at != row
        rest = SystemHull(fractions[:, others], energies[others], at[others])
        mixture = rest.mixture(phases.fractions[row, :3])
        names = [phases.formula(i) for i, _ in mixture]
        if any(name not in small for name in names) or not reference.known(formula) & LISTS:
            continue
        listed = zip([formula, *names], [int(row), *(i for i, _ in mixture)], strict=True)
        if any(abs(small[f][1] - phases.energies[i]) > SAME_ENERGY for f, i in listed):
            continue
        oqmd = small[formula][1] - sum(a * small[f][1] for f, (_, a) in zip(names, mixture, strict=True))
        if oqmd >= 0 or hubbard(elements):
            continue
        products = tuple(
            (f, str(reference.ids[small[f][0]]), round(a, 6))
            for f, (_, a) in zip(names, mixture, strict=True)
        )
        yield Reaction(
            formula, chemistry(elements), str(reference.ids[small[formula][0]]), products, round(oqmd, 6)
        )


def _small_crystals(reference: Reference) -> dict[str, tuple[int, float]]:
    """Compound → its lowest crystal and energy, eV/atom, where that has at most `LARGEST` atoms."""
    lowest: dict[str, tuple[int, float]] = {}
    energy = reference.formation_energy
    for i, formula in enumerate(reference.formulas.tolist()):
        if formula not in lowest or energy[i] < lowest[formula][1]:
            lowest[formula] = (i, float(energy[i]))
    kinds = np.count_nonzero(reference.crystals.compositions.amounts, axis=1)
    counts = reference.crystals.counts
    return {f: (i, e) for f, (i, e) in lowest.items() if kinds[i] > 1 and counts[i] <= LARGEST}


def cost(reaction: Reaction, reference: Reference) -> float:
    """Estimated CPU seconds."""
    return sum(job.cost for job in reaction.jobs(reference))


def draw(seed: int = 0) -> list[tuple[Reaction, float]]:
    """`QUOTAS` reactions with their estimated CPU seconds, cheapest first."""
    reference = load_reference()
    groups: dict[str, list[tuple[float, Reaction]]] = {name: [] for name in QUOTAS}
    for reaction in candidates(reference):
        groups[reaction.chemistry].append((cost(reaction, reference), reaction))
    drawn: list[tuple[Reaction, float]] = []
    for name, members in groups.items():
        ordered = sorted(members, key=lambda pair: (pair[0], pair[1].formula))
        half = ordered[: max(QUOTAS[name], int(len(ordered) * CHEAPER_HALF))]
        chosen = generator(seed, "dft-reactions", name).permutation(len(half))[: QUOTAS[name]]
        drawn += [(half[i][1], half[i][0]) for i in chosen.tolist()]
    return sorted(drawn, key=lambda pair: (pair[1], pair[0].formula))

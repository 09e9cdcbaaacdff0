"""Distance of a crystal to both hulls by DFT: its energy and those of its competing phases, same settings.

A phase that cannot be calculated (no structure, no data set) and an element whose DFT energy the databases
correct stand at the database's energy: its difference to phases that were calculated is taken from there,
and the distance is marked as mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from anchor.chemistry.elements import SYMBOLS
from anchor.chemistry.formula import parse_amounts, reduced_formula
from anchor.crystals.crystals import Crystals
from anchor.dft.engine import Calculator
from anchor.dft.jobs import Job
from anchor.dft.products import Library, Phase
from anchor.dft.rules import Settings, mixes_hubbard, settings_for
from anchor.dft.store import Energy
from anchor.hull.databases import LABELS
from anchor.hull.hull import Decomposition
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull

MEAN_ERROR = 0.008
"""eV/atom: mean error of the reaction energies of docs/dft.md against OQMD's, rounded up (7.3 meV/atom of the
ten that are done, seven of them halides: `python benchmarks/dft.py table`)."""
WITHIN = 2 * MEAN_ERROR
"""eV/atom: what lies nearer to a limit is undecided."""
CORRECTED = frozenset(["H", "N", "O", "F", "P", "S", "Cl", "Se", "Br", "Te", "I"])
"""Elements whose own energy is not DFT's in the databases (gases, halogens, chalcogens, P: fitted references
or corrected anions), so that a calculated one would be on another scale than the hull. Metals are calculated.
"""
LARGEST_HELPER = 8
"""Atoms of the largest known phase that is calculated only to tie others to."""
NEAR = 0.05
"""eV/atom above OQMD's hull up to which it is."""
SAME_PHASE = 1e-3
"""eV/atom: a reference crystal this near the listed energy of its formula is the phase that is listed."""
MOST_SECONDS = 900.0
"""Estimated CPU time beyond which a competing phase goes by the database's energy differences."""
MADE_WITHIN = 0.03
"""eV/atom: a template that lies further above the listed energy of its formula is not the phase that is
listed, and would flatter the find."""
DFT = "DFT"
SAME = 1e-6

Verdict = Literal["confirmed", "within the error", "refuted", "unknown"]


@dataclass(frozen=True)
class Product:
    """A competing phase and how its energy was obtained.

    Attributes:
        formula: Reduced.
        amount: Atomic fraction.
        origin: Of its structure.
        energy: eV/atom on the scale of the calculations; None: not to be had.
        how: "DFT", or by which difference of the database.
        status: Of its calculation.
    """

    formula: str
    amount: float
    origin: str
    energy: float | None
    how: str
    status: str


@dataclass(frozen=True)
class Distance:
    """Of a crystal to one database's hull.

    Attributes:
        database: "oqmd" or "mp".
        above: eV/atom, signed; None: not to be had.
        products: Of the decomposition.
        mixed: Whether a database's energies entered.
        notes: What speaks against the number.
    """

    database: str
    above: float | None
    products: tuple[Product, ...]
    mixed: bool
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The decomposition, for people."""
        return " + ".join(f"{p.amount:.3g} {p.formula}" for p in self.products)


@dataclass(frozen=True)
class Found:
    """What DFT says about one crystal.

    Attributes:
        formula: Reduced.
        settings: Shared by all phases.
        energy: Of the crystal itself.
        distances: To each hull.
        about: The crystal's job, for people.
        cpu_seconds: Spent on what was not known before.
    """

    formula: str
    settings: Settings
    energy: Energy
    distances: tuple[Distance, ...] = ()
    about: str = ""
    cpu_seconds: float = 0.0

    @property
    def above(self) -> float | None:
        """The largest distance, eV/atom; None where one of the hulls could not be asked."""
        values = [d.above for d in self.distances]
        return None if not values or None in values else max(v for v in values if v is not None)

    @property
    def mixed(self) -> bool:
        return any(d.mixed for d in self.distances)

    def verdict(self, limit: float = 0.0) -> Verdict:
        """On the claim to lie at most `limit` (eV/atom) above the hulls."""
        if self.above is None:
            return "unknown"
        if self.above <= limit - WITHIN:
            return "confirmed"
        return "within the error" if self.above <= limit + WITHIN else "refuted"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "formula": self.formula,
            "settings": self.settings.to_dict(),
            "calculation": self.about,
            "status": self.energy.text,
            "energy_ev_per_atom": self.energy.per_atom,
            "about": self.energy.about,
            "above_hull_ev_per_atom": self.above,
            "verdict": self.verdict(),
            "mixed": self.mixed,
            "hulls": {
                d.database: {
                    "above_ev_per_atom": d.above,
                    "mixed": d.mixed,
                    "notes": list(d.notes),
                    "products": [vars(p) for p in d.products],
                }
                for d in self.distances
            },
        }


@dataclass(frozen=True, eq=False)
class Stability:
    """Asks DFT how far crystals lie from the hulls.

    Attributes:
        hull: Names the competing phases on both databases' hulls.
        library: Their structures.
        calculator: Their energies.
        relax: Whether everything follows the DFT forces first.
        most_seconds: Competing phases of larger estimated CPU time are not calculated.
    """

    hull: PotentialHull
    library: Library
    calculator: Calculator
    relax: bool = False
    most_seconds: float = MOST_SECONDS
    _listed: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, crystal: Crystals) -> Found:
        """What DFT says about a crystal, a batch of one."""
        formula = crystal.formulas[0]
        mixtures = self.hull.decompositions(formula)
        phases = {phase.formula: phase for phase in self.phases(crystal)}
        products = list(phases)
        for name, mixture in mixtures.items():
            have = [f for f, phase in phases.items() if phase.crystal is not None]
            absent = [f for f in mixture.formulas if f not in have]
            phases |= {f: self.library(f) for f in self._helpers(name, absent, have, products)}
        crystals = {f: phase.crystal for f, phase in phases.items() if phase.crystal is not None}
        settings = settings_for([formula, *crystals])
        jobs = [Job.of(c, settings, relax=self.relax) for c in (crystal, *crystals.values())]
        found = self.calculator(jobs)
        energies = dict(zip(crystals, found[1:], strict=True))
        distances = tuple(
            self._distance(name, found[0], mixture, phases, energies) for name, mixture in mixtures.items()
        )
        new = [e.about.get("cpu_seconds", 0.0) for e in found if e.source == "calculated"]
        return Found(formula, settings, found[0], distances, jobs[0].text, sum(new))

    def placed(self, formula: str, own: Energy, energies: Mapping[str, Energy]) -> tuple[Distance, ...]:
        """Distances of an energy that was calculated elsewhere.

        Args:
            formula: Whose energy it is.
            own: The energy.
            energies: Of phases on the same scale, by formula.
        """
        mixtures = self.hull.decompositions(formula)
        origins = {
            f: "imported geometry" if f in energies else "not imported"
            for m in mixtures.values()
            for f in m.formulas
        }
        phases = {f: Phase(f, None, origin) for f, origin in origins.items()}
        return tuple(
            self._distance(name, own, mixture, phases, energies) for name, mixture in mixtures.items()
        )

    def phases(self, crystal: Crystals) -> list[Phase]:
        """Competing phases of a crystal on both hulls; without a crystal: not to be calculated."""
        formula = crystal.formulas[0]
        listed: dict[str, list[tuple[str, float]]] = {}
        for name, mixture in self.hull.decompositions(formula).items():
            for f, energy in zip(mixture.formulas, mixture.energies, strict=True):
                listed.setdefault(f, []).append((name, energy))
        settings = settings_for([formula])
        return [self._phase(f, settings, energies) for f, energies in sorted(listed.items())]

    def _phase(self, formula: str, settings: Settings, listed: Sequence[tuple[str, float]]) -> Phase:
        """A competing phase, without its crystal if that is not to be calculated.

        Args:
            listed: Databases on whose hulls it competes, and its energies there, eV/atom.
        """
        if is_corrected(formula):
            return Phase(formula, None, "an element whose energy the databases correct")
        phase = self.library(formula)
        if phase.crystal is None:
            return phase
        if phase.made_at is not None:
            over = max(self._formation(name, phase) - energy for name, energy in listed)
            if over > MADE_WITHIN:
                reason = f"only an energy is listed; the best template lies {over:.3f} eV/atom above it"
                return Phase(formula, None, reason)
        job = Job.of(phase.crystal, settings)
        if job.cost <= self.most_seconds or self.calculator.store.get(job) is not None:
            return phase
        atoms, cost = len(job.numbers), job.cost
        return Phase(formula, None, f"too large: {atoms} atoms, about {cost:.0f} s of CPU time")

    def _formation(self, database: str, phase: Phase) -> float:
        """Formation energy of a made phase on a database's scale, eV/atom."""
        calibration = self.hull.databases[database].calibration
        return float(
            calibration.formation_energy(composition_matrix([phase.formula]), np.array([phase.made_at]))[0]
        )

    def _distance(
        self,
        database: str,
        own: Energy,
        mixture: Decomposition,
        phases: Mapping[str, Phase],
        energies: Mapping[str, Energy],
    ) -> Distance:
        calculated = {f: e.per_atom for f, e in energies.items() if e.per_atom is not None}
        products = []
        for f, amount, listed, source in zip(
            mixture.formulas, mixture.amounts, mixture.energies, mixture.sources, strict=True
        ):
            status = energies[f].text if f in energies else "not calculated"
            energy, how = calculated.get(f), DFT
            if energy is None:
                label = LABELS[database]
                whose = label if source == label else f"{self.library.potential} (calibrated to {label})"
                energy, how = self._by_difference(database, f, listed, calculated, whose)
            products.append(Product(f, float(amount), phases[f].origin, energy, how, status))
        values = [p.energy for p in products if p.energy is not None]
        above = None
        if own.per_atom is not None and len(values) == len(products):
            above = own.per_atom - sum(p.amount * e for p, e in zip(products, values, strict=True))
        notes = [f"U on {s} in some phases only" for s in mixes_hubbard(mixture.formulas)]
        notes += [f"{p.formula} ({p.origin}): {p.how}" for p in products if p.how != DFT]
        notes += [f"{p.formula}: {p.origin}" for p in products if p.how == DFT and "geometry" not in p.origin]
        mixed = any(p.how != DFT for p in products)
        return Distance(database, above, tuple(products), mixed, tuple(notes))

    # What cannot be calculated

    def _by_difference(
        self, database: str, formula: str, listed: float, calculated: Mapping[str, float], whose: str
    ) -> tuple[float | None, str]:
        """Energy of a phase on the scale of the calculations, eV/atom, and how it was obtained.

        The phase is written as a combination of calculated ones, with positive and negative amounts; the
        energy of that reaction is the database's.
        """
        known = self._energies(database)
        usable = [f for f in calculated if f in known]
        weights = _combination(formula, usable)
        if weights is None:
            return None, f"no combination of calculated phases of {LABELS[database]} gives it"
        used = {f: w for f, w in zip(usable, weights.tolist(), strict=True) if abs(w) > SAME}
        energy = listed + sum(w * (calculated[f] - known[f]) for f, w in used.items())
        parts = " ".join(f"{w:+.3g} {f}" for f, w in used.items())
        return energy, f"energy difference of {whose} to {parts}"

    def _helpers(
        self, database: str, absent: Sequence[str], have: Sequence[str], formulas: Sequence[str]
    ) -> list[str]:
        """Known phases to be calculated as well, so that those which cannot be are tied to them."""
        known, chosen = self._energies(database), list[str]()
        base = [f for f in have if f in known]
        elements = frozenset().union(*(parse_amounts(f) for f in formulas))
        for f in self._small_known(elements):
            if all(_combination(target, base + chosen) is not None for target in absent):
                break
            if f in known and f not in base and not is_corrected(f) and _raises_rank(f, base + chosen):
                chosen.append(f)
        return chosen

    def _small_known(self, elements: frozenset[str]) -> list[str]:
        """Formulas of small reference crystals, made of these elements and near OQMD's hull.

        Compounds first, then elements; small cells first.
        """
        reference, listed = self.library.reference, self._energies("oqmd")
        counts, energy = reference.crystals.counts, reference.formation_energy
        rows = np.flatnonzero((reference.e_above_hull <= NEAR) & (counts <= LARGEST_HELPER))
        inside = []
        for i in rows.tolist():
            formula = str(reference.formulas[i])
            system = parse_amounts(formula)
            if elements.issuperset(system) and abs(energy[i] - listed.get(formula, np.inf)) < SAME_PHASE:
                inside.append((len(system) == 1, int(counts[i]), formula))
        return list(dict.fromkeys(formula for _, _, formula in sorted(inside)))

    def _energies(self, database: str) -> Mapping[str, float]:
        """Formation energies of a database's compounds by formula, eV/atom, and of elements: 0."""
        if database not in self._listed:
            reference = self.library.reference
            energies = (
                reference.mp_hull_energy
                if database == "mp"
                else dict(zip(reference.hull_formulas, reference.hull_formation_energy.tolist(), strict=True))
            )
            elements = [reduced_formula([s], [1]) for s in SYMBOLS[1:]]
            self._listed[database] = {**dict.fromkeys(elements, 0.0), **energies}
        return self._listed[database]


def is_corrected(formula: str) -> bool:
    """Whether it is an element whose energy the databases correct."""
    elements = frozenset(parse_amounts(formula))
    return len(elements) == 1 and bool(elements & CORRECTED)


def _fractions(formulas: Sequence[str]) -> np.ndarray:
    amounts = composition_matrix(formulas)
    return amounts / amounts.sum(axis=1, keepdims=True)


def _combination(formula: str, others: Sequence[str]) -> np.ndarray | None:
    """Atomic fractions (any sign) of the others that give a formula, smallest ones; None: they do not."""
    if not others:
        return None
    target, columns = _fractions([formula])[0], _fractions(others).T
    weights = np.linalg.lstsq(columns, target, rcond=None)[0]
    return weights if np.abs(columns @ weights - target).max() < SAME else None


def _raises_rank(formula: str, others: Sequence[str]) -> bool:
    return not others or _combination(formula, others) is None

"""One energy that is asked for: cell, settings, spin and U, everything that the number depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.dft.cells import irreducible_points, primitive
from anchor.dft.rules import (
    FROZEN_4F,
    VERSION,
    WITHOUT_DATA,
    Settings,
    hubbard,
    moments,
    valence_electrons,
)

START_S, UNIT_S = 3.0, 0.0012
"""CPU seconds of a start, and per k-point, spin, electron and 1e5 plane-wave units (Å³ eV^1.5): right within
a factor of three."""

HASHED_DECIMALS = 3
"""Of Å and of fractional coordinates: finer differences change energies by less than 0.1 meV/atom."""


@dataclass(frozen=True)
class Job:
    """A calculation. Equal jobs have equal hashes, and only one of them is ever run.

    Attributes:
        numbers: Atomic numbers.  # n
        cell: Vectors as rows, Å.  # 3 × 3
        frac: Fractional coordinates.  # n × 3
        mesh: Γ-centred k-points.
        cutoff: eV.
        width: eV.
        magnetic: Moment each atom starts with, μB; empty: no spin.  # n or 0
        hubbard: Element → (shell, U in eV).
        generated: Elements whose data set is not of GPAW's collection (frozen 4f, or it has none).
        relax: Whether positions and cell follow the DFT forces first.
        version: Of the rules.
    """

    numbers: tuple[int, ...]
    cell: tuple[tuple[float, ...], ...]
    frac: tuple[tuple[float, ...], ...]
    mesh: tuple[int, int, int]
    cutoff: float
    width: float
    magnetic: tuple[float, ...] = ()
    hubbard: tuple[tuple[str, str, float], ...] = ()
    generated: tuple[str, ...] = ()
    relax: bool = False
    version: int = VERSION

    @classmethod
    def of(cls, crystal: Crystals, settings: Settings, *, relax: bool = False) -> Job:
        """The energy of one crystal under the settings of its reaction."""
        cell = primitive(crystal)
        made = cell.crystal
        symbols = [SYMBOLS[z] for z in made.numbers.tolist()]
        start = moments(symbols)
        return cls(
            numbers=tuple(made.numbers.tolist()),
            cell=_nested(made.lattice[0]),
            frac=_nested(made.frac),
            mesh=cell.mesh(settings.density),
            cutoff=settings.cutoff,
            width=settings.width,
            magnetic=tuple(start.get(s, 0.0) for s in symbols) if start else (),
            hubbard=tuple((s, shell, u) for s, (shell, u) in hubbard(symbols).items()),
            generated=tuple(sorted(frozenset(symbols) & (FROZEN_4F.keys() | WITHOUT_DATA))),
            relax=relax,
        )

    @property
    def hash(self) -> str:
        """SHA-256 of everything above, 32 characters of it; the geometry counts to `HASHED_DECIMALS`."""
        rounded = {
            name: (np.round(getattr(self, name), HASHED_DECIMALS) + 0.0).tolist() for name in ("cell", "frac")
        }
        text = json.dumps({**self.to_dict(), **rounded}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def crystal(self) -> Crystals:
        """What is calculated, a batch of one."""
        return Crystals(
            np.array([len(self.numbers)]), np.array(self.numbers), np.array(self.frac), np.array(self.cell)
        )

    @property
    def formula(self) -> str:
        return self.crystal.formulas[0]

    @property
    def cost(self) -> float:
        """Estimate of the CPU time in seconds: k-points, spins, electrons and plane waves."""
        crystal = self.crystal
        electrons = sum(valence_electrons(SYMBOLS[z]) for z in self.numbers)
        waves = float(crystal.volume[0]) * self.cutoff**1.5 / 1e5
        spins = 2 if self.magnetic else 1
        points = irreducible_points(crystal, self.mesh)
        return START_S + UNIT_S * points * spins * electrons * waves

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Job:
        """Of `to_dict`."""
        return cls(**{name: _frozen(value) for name, value in document.items()})

    @property
    def text(self) -> str:
        """For people: 'KYSe2, 4 atoms, 400 eV, 8×8×8, spin'."""
        parts = [
            f"{self.formula}, {len(self.numbers)} atoms, {self.cutoff:g} eV, " + "×".join(map(str, self.mesh))
        ]
        if self.magnetic:
            parts.append("ferromagnetic start")
        parts += [f"U({s}) {u:g} eV" for s, _, u in self.hubbard]
        parts += [f"frozen 4f ({s})" for s in self.generated if s in FROZEN_4F]
        return ", ".join([*parts, "relaxed"] if self.relax else parts)


def _nested(values: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(v) + 0.0 for v in row) for row in values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value

"""The hulls a potential's energies are compared with: of two databases, and the larger distance counts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.hull.calibration import Calibration
from anchor.hull.databases import (
    LABELS,
    DatabaseHulls,
    Scheme,
    dft_hull,
    load_database,
)
from anchor.hull.energies import load_energies
from anchor.hull.filling import load_filling
from anchor.hull.hull import SCORED, Decomposition, Hull, HullIdentity
from anchor.hull.merit import strict_hulls
from anchor.hull.phases import N_NUMBERS, composition_matrix
from anchor.hull.ytterbium import YTTERBIUM
from anchor.reference.reference import load_reference

if TYPE_CHECKING:
    from anchor.potentials.base import Potential

__all__ = ["HullScores", "Kind", "PotentialHull", "dft_hull", "load_hull"]

Kind = Literal["union", "strict", "unfilled", "mp", "oqmd", "dft", "potential"]
OLD_KIND = "oqmd"
"""OQMD alone with the calibration of before there was a second database: its numbers never change."""
STRICT = "strict"
"""Both databases, with the elements where the potential has them if that is lower (`anchor.hull.merit`)."""
UNFILLED = "unfilled"
"""Both databases without the filling: to see what the filling changes."""
DECIMALS = 9
"""Energies in eV/atom are rounded to this: a composition on an edge belongs to several facets, and which of
them answers may change the last bit from run to run."""


@dataclass(frozen=True, eq=False)
class HullScores:
    """Energies of n candidates against every hull, eV/atom, signed; NaN where not scored.

    Attributes:
        formation_energy: On the scale of the first database (OQMD).  # [n]
        above: Hull name ("dft" and "potential" of OQMD, "oqmd", "mp", "union", …) → energy above that hull.
            # [n] each
        kind: The hull that counts.
        status: "scored", "scored on … alone: …", or why not.  # [n]
    """

    formation_energy: NDArray[np.float64]
    above: dict[str, NDArray[np.float64]]
    kind: str
    status: list[str]

    @property
    def energy_above_hull(self) -> NDArray[np.float64]:
        """Against the hull that counts, eV/atom.  # [n]"""
        return self.above[self.kind]


class PotentialHull:
    """Hulls for the energies of one potential: of each database, on its own scale.

    A candidate is compared with "dft" and "potential" of the first database, and with the union of both of
    every database under the database's name. "union" is the largest of the latter.

    Args:
        databases: By name.
        identity: Of the whole: its checkpoint hash is the only one whose energies are accepted.
        kind: The hull that counts.
    """

    def __init__(
        self, databases: dict[str, DatabaseHulls], identity: HullIdentity, *, kind: Kind = "union"
    ) -> None:
        self.databases = databases
        self.identity = identity
        self.kind = kind
        self._first = next(iter(databases))
        first = databases[self._first]
        self.hulls: dict[str, Hull] = {
            "dft": first.dft,
            "potential": first.potential,
            **{name: database.union for name, database in databases.items()},
        }
        self._counting = [kind] if kind != "union" else list(databases)
        self._covered = {name: self._database(name).covered(self.hulls[name]) for name in self._counting}
        self.elements = frozenset().union(*self._covered.values())
        """Atomic numbers that can be scored."""

    def _database(self, hull: str) -> DatabaseHulls:
        return self.databases.get(hull, self.databases[self._first])

    @property
    def calibration(self) -> Calibration:
        """To the scale of the first database."""
        return self.databases[self._first].calibration

    @property
    def searchable_elements(self) -> tuple[str, ...]:
        """Elements that every hull that counts covers and has right, with well-determined references."""
        covered = {SYMBOLS[z] for z in frozenset.intersection(*self._covered.values())} - {YTTERBIUM}
        return tuple(s for s in self.calibration.searchable_elements if s in covered)

    def score(self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str) -> HullScores:
        """Energies above every hull.

        Args:
            crystals: Candidates; only their compositions matter.
            energies: Total energies of the potential, eV; NaN gives NaN.  # [n]
            checkpoint_hash: Of the potential that gave the energies; another one than the hull's raises.
        """
        energies = np.asarray(energies, dtype=np.float64)
        if energies.shape != (len(crystals),):
            raise InputError(f"{len(crystals)} crystals but energies of shape {energies.shape}")
        self.identity.require(checkpoint_hash)
        amounts = crystals.compositions.amounts
        formation = {
            name: database.calibration.formation_energy(amounts, energies / crystals.counts)
            for name, database in self.databases.items()
        }
        above = {
            name: np.round(
                hull.energy_above_hull(amounts, formation.get(name, formation[self._first])), DECIMALS
            )
            for name, hull in self.hulls.items()
        }
        if self.kind == "union":
            above["union"] = np.fmax.reduce([above[name] for name in self._counting])
        status = self._status(amounts, energies)
        return HullScores(np.round(formation[self._first], DECIMALS), above, self.kind, status)

    def _status(self, amounts: NDArray[np.float64], energies: NDArray[np.float64]) -> list[str]:
        missing = {}
        for name, covered in self._covered.items():
            uncovered = np.ones(N_NUMBERS, dtype=bool)
            uncovered[sorted(covered)] = False
            missing[name] = (amounts > 0) & uncovered
        status = [SCORED if np.isfinite(e) else "not scored: no energy" for e in energies]
        for i in np.flatnonzero(np.any([m.any(axis=1) for m in missing.values()], axis=0)).tolist():
            lacking = {
                name: ", ".join(SYMBOLS[z] for z in np.flatnonzero(m[i])) for name, m in missing.items()
            }
            able = [name for name, symbols in lacking.items() if not symbols]
            if not able:
                status[i] = f"not scored: no reference for {lacking[self._counting[0]]}"
            elif status[i] == SCORED:
                without = "; ".join(f"{LABELS[n]} has no reference for {s}" for n, s in lacking.items() if s)
                status[i] = f"{SCORED} on {LABELS[able[0]]} alone: {without}"
        return status

    def decompositions(self, composition: NDArray[np.float64] | str) -> dict[str, Decomposition]:
        """Competing phases on each of the hulls that count and cover the elements, by name."""
        found = {name: self.hulls[name].decomposition(composition) for name in self._counting}
        return {name: mixture for name, mixture in found.items() if mixture is not None}

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None:
        """Competing phases on the hull that counts; None where an element has no reference.

        Which database gives the larger distance does not depend on the energy, only on the composition.
        """
        found = self.decompositions(composition)
        amounts = composition_matrix([composition]) if isinstance(composition, str) else composition[None]

        def height(name: str) -> float:
            at_zero = self._database(name).calibration.formation_energy(amounts, np.zeros(1))[0]
            return float(np.nan_to_num(at_zero - found[name].energy, nan=-np.inf))

        return found[max(found, key=height)] if found else None


def load_hull(potential: Potential | str, kind: Kind = "union") -> PotentialHull:
    """The hulls of the bundled reference for a potential.

    Args:
        potential: Whose energies are to be compared; its weights' hash must be that of the bundled energies.
            A name is enough where no energies are to be computed.
        kind: The hull that counts. "union": both databases, each with the potential's own energies of the
            reference crystals and the phases it filled in (`anchor.hull.filling`); the larger distance
            counts. "strict": the same with the elements where the potential has them, if that is lower: what
            wrong elements would lend a compound (MnS19, LiCl4) does not count, and rewards that train on it
            cannot be earned with them. "unfilled": "union" without the filling. "mp": the Materials Project's
            of "union". "dft" and "potential": OQMD's DFT energies or the potential's own alone. "oqmd":
            OQMD's with the potential's own, calibrated as before there was a second database and not filled;
            reproduces what was then "union".
    """
    if kind not in get_args(Kind):
        raise InputError(f"there is no hull '{kind}'", nearest(kind, get_args(Kind)))
    if isinstance(potential, str):
        found = load_energies(potential, load_reference().crystals)
        return _load_hull(potential, found.checkpoint_hash, kind)
    return _load_hull(potential.name, potential.checkpoint_hash, kind)


@lru_cache(maxsize=8)
def _load_hull(name: str, checkpoint_hash: str, kind: Kind) -> PotentialHull:
    filled = kind not in (OLD_KIND, UNFILLED)
    databases, identity = _load_databases(name, checkpoint_hash, old=kind == OLD_KIND, filled=filled)
    if kind == STRICT:
        reference = load_reference()
        strict = strict_hulls(databases, reference, load_energies(name, reference.crystals))
        databases = {name: replace(hulls, union=strict[name]) for name, hulls in databases.items()}
        identity = replace(identity, correction=f"{identity.correction}-{STRICT}")
    return PotentialHull(databases, identity, kind="union" if kind in (UNFILLED, STRICT) else kind)


@lru_cache(maxsize=4)
def _load_databases(
    name: str, checkpoint_hash: str, *, old: bool, filled: bool
) -> tuple[dict[str, DatabaseHulls], HullIdentity]:
    reference = load_reference()
    energies = load_energies(name, reference.crystals, checkpoint_hash=checkpoint_hash)
    schemes: dict[str, Scheme] = {"oqmd": "oqmd-by-presence"} if old else {"oqmd": "oqmd", "mp": "mp"}
    digest = hashlib.sha256(reference.hash.encode())
    if not old:
        digest.update(dft_hull("mp").identity.reference_hash.encode())
    own = HullIdentity("", checkpoint_hash)  # of the parts; what counts is the identity of the whole
    filling = None
    if filled:
        filling = load_filling(name, checkpoint_hash=checkpoint_hash, reference_hash=reference.hash)
        digest.update(b"" if filling is None else filling.hash.encode())
    databases = {
        database: load_database(reference, energies, scheme, own, filling)
        for database, scheme in schemes.items()
    }
    for hulls in databases.values():
        digest.update(json.dumps(hulls.calibration.to_dict(), sort_keys=True).encode())
        digest.update(hulls.own_energies.tobytes())
    correction = "-".join([*databases, "calibration"])
    return databases, HullIdentity(digest.hexdigest(), checkpoint_hash, correction)

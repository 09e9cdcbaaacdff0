"""The validity gate (paper: app:reward/validity): bond lengths and charge neutrality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.charge import ASSIGNED_ATOMS, is_neutral, neutral_assignment
from anchor.chemistry.composition import MAX_ELEMENTS, Composition, Compositions, parse_formula
from anchor.chemistry.elements import INDEX, SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts, minimum_image_distances
from anchor.gates.base import Verdicts
from anchor.reference.bonds import BondTable, passes_by_floor_only

NOT_NEUTRAL = "not charge-neutral"


def bond_thresholds(
    shortest: NDArray[np.float64], *, tolerance: float = 0.2, fallback: float | NDArray[np.float64] = 1.2
) -> NDArray[np.float64]:
    """θ_ab of eq:bond-thresh, Å: (1 − τ) d_min where the pair is known, else the floor without tolerance.

    Args:
        shortest: Shortest separation of each pair of elements known, Å, NaN if never seen.  # [Z, Z]
        tolerance: τ, fraction by which a bond may be shorter than any known one.
        fallback: d_floor, Å: one number, or a table such as one from atomic radii.  # [] or [Z, Z]
    """
    return np.where(np.isnan(shortest), fallback, (1 - tolerance) * shortest)


@dataclass(frozen=True)
class BondCheck:
    """Outcome of the bond-length check of n crystals.

    Attributes:
        ok: No two atoms are closer than their pair's threshold.  # [n]
        tightest: Smallest distance over threshold; below 1 the check fails.  # [n]
        pair: Atomic numbers of that tightest contact.  # [n, 2]
    """

    ok: NDArray[np.bool_]
    tightest: NDArray[np.float64]
    pair: NDArray[np.int64]


def check_bonds(
    crystals: Crystals, thresholds: NDArray[np.float64], *, contacts: Contacts | None = None
) -> BondCheck:
    """Reject a crystal when any contact, periodic images and a site's own included, has d < θ_ab."""
    contacts = minimum_image_distances(crystals, self_images=True) if contacts is None else contacts
    first, second = crystals.numbers[contacts.first], crystals.numbers[contacts.second]
    ratio = contacts.distance / thresholds[first, second]
    order = np.lexsort((ratio, contacts.crystal))
    # every crystal has at least one contact (an atom and its own image), so this finds one per crystal
    tightest = order[np.searchsorted(contacts.crystal[order], np.arange(len(crystals)))]
    value = ratio[tightest]
    return BondCheck(value >= 1.0, value, np.stack([first[tightest], second[tightest]], axis=1))


def check_charges(
    compositions: Compositions, bounds: Mapping[str, tuple[int, int]] | None = None
) -> NDArray[np.bool_]:
    """Whether a charge-neutral assignment of ICSD oxidation states exists for each cell.  # [n]

    Args:
        compositions: The cells as they are realised.
        bounds: Lowest and highest oxidation state allowed for single elements (off in the paper).
    """
    return is_neutral(compositions, bounds=bounds)


@dataclass(frozen=True, eq=False)
class PaperGate:
    """The paper's gate: no bond too short, and a charge-neutral assignment of the realised cell.

    Attributes:
        thresholds: θ_ab, Å (eq:bond-thresh).  # [Z, Z]
        table: Shortest bonds known, for what passes by the floor alone.
        floor: d_floor, Å.
        oxidation_bounds: Allowed oxidation states of single elements (off in the paper).
    """

    thresholds: NDArray[np.float64]
    table: BondTable
    floor: float = 1.2
    oxidation_bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    label = "anchor: shortest bonds of the reference − 20 %, ICSD oxidation states"

    def verdicts(self, crystals: Crystals, contacts: Contacts) -> Verdicts:
        bonds = check_bonds(crystals, self.thresholds, contacts=contacts)
        charge_ok = _neutral_cells(crystals, self.oxidation_bounds)
        reasons = []
        for neutral, ok, ratio, pair in zip(charge_ok, bonds.ok, bonds.tightest, bonds.pair, strict=True):
            faults = [] if neutral else [NOT_NEUTRAL]
            if not ok:
                a, b = (SYMBOLS[z] for z in pair)
                faults.append(f"{a}–{b} at {ratio:.2f} of the shortest allowed")
            reasons.append("; ".join(faults))
        columns = {
            "charge_ok": charge_ok,
            "bonds_ok": bonds.ok,
            "bond_ratio": bonds.tightest,
            "bonds_by_floor": passes_by_floor_only(crystals, self.table, floor=self.floor, contacts=contacts),
        }
        return Verdicts(charge_ok & bonds.ok, reasons, columns)


def _neutral_cells(crystals: Crystals, bounds: Mapping[str, tuple[int, int]]) -> NDArray[np.bool_]:
    """`check_charges` of the cells of crystals; those that no batch of compositions holds one by one."""
    found = np.zeros(len(crystals), dtype=bool)
    for i, crystal in enumerate(crystals):
        numbers, counts = np.unique(crystal.numbers, return_counts=True)
        cell = Composition(tuple(SYMBOLS[z] for z in numbers), tuple(counts.tolist()))
        if cell.k <= MAX_ELEMENTS and all(symbol in INDEX for symbol in cell.elements):
            found[i] = check_charges(Compositions.from_list([cell]), bounds)[0]
            continue
        if cell.n_atoms > ASSIGNED_ATOMS:
            cell = parse_formula(cell.formula)
        found[i] = (
            cell.n_atoms <= ASSIGNED_ATOMS and neutral_assignment(cell.elements, cell.counts) is not None
        )
    return found

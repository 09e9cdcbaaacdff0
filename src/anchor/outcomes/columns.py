"""Every column of every table of outcomes: its name, kind, unit and meaning, and the two thresholds.

Ledger, evaluations, exports, terminal, report and pictures take names, headings and thresholds from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from anchor.config import Thresholds
from anchor.errors import AnchorError, nearest

DEFINITIONS = Thresholds()
STABLE_BELOW = DEFINITIONS.stable_below
"""eV/atom: "stable" and "on the hull" are at most this (app:eval_protocol)."""
METASTABLE_BELOW = DEFINITIONS.metastable_below
"""eV/atom: "metastable" is at most this."""
NOVEL_ABOVE = DEFINITIONS.novel_above
"""ν above which a structure is novel."""

NEAR_HULL = f"within {METASTABLE_BELOW:g} eV/atom of the hull"
ON_HULL = "on or below the hull"

Kind = Literal["bool", "int", "float", "text"]


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: In files and databases; the unit is part of it.
        kind: Of its values; any of them may be missing (in files: empty or null).
        about: What it says.
        heading: Over its column, for people.
    """

    name: str
    kind: Kind
    about: str
    heading: str = ""


ABOVE = "energy_above_hull_ev_per_atom"
ABOVE_EACH = "energy_above_*_hull_ev_per_atom"
EACH = "energy_above_each_hull_ev_per_atom"
"""Column of ledgers: energies above all hulls, by their names."""
ABOVE_WITH_FINDS = "energy_above_hull_with_finds_ev_per_atom"
FORMATION = "formation_energy_ev_per_atom"
ENERGY = "energy_ev"

_ALL = (
    # What was proposed or read
    Column("index", "int", "place in the sample of its seed, from 0"),
    Column("seed", "int", "sampling seed"),
    Column("source", "text", "where it comes from"),
    Column("file", "text", "file it was read from"),
    Column("formula", "text", "reduced formula f(c)", "formula"),
    Column("cell", "text", "atoms of the cell as proposed or read"),
    Column("n_atoms", "int", "atoms in the cell", "atoms"),
    Column("made_by", "text", "prior that made the crystal"),
    Column("status", "text", "drawn, measured, failed, not scored, not realised; ledgers: scored, invalid"),
    Column("reason", "text", "why it is not measured, or not valid"),
    # Relaxation
    Column("relaxation", "text", "converged, capped, diverged, failed, not relaxed", "relaxation"),
    Column("relaxation_steps", "int", "moves made"),
    Column("evaluations", "int", "calls of the potential, those that chose the crystal included"),
    Column("max_force_ev_per_angstrom", "float", "largest force at the end"),
    Column(ENERGY, "float", "potential energy of the cell, eV"),
    # Hulls
    Column(FORMATION, "float", "on the scale of the hull that counts", "eV/atom of formation"),
    Column(ABOVE, "float", "above the hull that counts, signed", "eV/atom above hull"),
    Column(ABOVE_EACH, "float", "above one of the hulls, signed"),
    Column(ABOVE_WITH_FINDS, "float", "above it with all else that the campaign found", "with finds"),
    Column("depth_percentile", "float", "known stable compounds of its kind that are less deep, percent"),
    Column("suspicious", "bool", "deeper below the hull than 99 % of the known stable compounds of its kind"),
    Column("thin", "text", "why no database knows the chemical system well; empty: one does"),
    Column("phases_known", "text", "compounds that each database knows in the chemical system"),
    Column("holes", "text", "deep phases of the system that one database alone knows, eV/atom"),
    Column("space_group_known", "bool", "ICSD or COD list the formula in this space group"),
    # Gate
    Column("charge_ok", "bool", "the realised cell can be charge-neutral"),
    Column("bonds_ok", "bool", "no contact below its threshold"),
    Column("bond_ratio", "float", "tightest distance over its threshold"),
    Column("bonds_by_floor", "bool", "a pair of elements never seen passes by the floor alone"),
    Column("lemat_charge_ok", "bool", "charge-neutral by LeMat-GenBench"),
    Column("lemat_distance_ok", "bool", "distances by LeMat-GenBench"),
    Column("lemat_plausibility_ok", "bool", "plausible by LeMat-GenBench"),
    Column("valid", "bool", "relaxed and passed the gate"),
    Column("gate_reason", "text", "why the gate refused it"),
    # Novelty
    Column("novelty", "float", "ν: CAN that counts (evaluations: against the reference alone)", "novelty"),
    Column("novelty_branch", "text", "bootstrap, reference, history, both"),
    Column("known_in", "text", "sources that know the formula, comma-separated"),
    # Flags (app:eval_protocol)
    Column("unique", "bool", "first of its kind in sampling order"),
    Column("novel", "bool", "novel"),
    Column("metastable", "bool", f"valid and at most {METASTABLE_BELOW:g} eV/atom above the hull"),
    Column("stable", "bool", "valid and on or below the hull"),
    Column("msun", "bool", "metastable, unique and novel"),
    Column("sun", "bool", "stable, unique and novel"),
    Column("known", "bool", "valid with a formula of the reference"),
    Column("known_anywhere", "bool", "valid with a formula that any bundled source lists"),
    Column("new_msun", "bool", "MSUN with a formula known nowhere"),
    Column("new_sun", "bool", "SUN with a formula known nowhere"),
    Column("own_msun", "bool", "MSUN of its own merit: not lent by elements that stand too high"),
    Column("own_sun", "bool", "SUN of its own merit"),
    # Protocols of others
    Column("chemical_system", "text", "elements, as Fe-Li-O"),
    Column("space_group", "int", "international number"),
    Column("duplicate_of", "int", "index of the first of its kind"),
    Column("matches_in_reference", "text", "ids of the reference structures it matches"),
    Column("matcher_fault", "text", "what went wrong while comparing structures"),
    Column("rmsd_from_relaxation_angstrom", "float", "MatterGen's displacement, Å"),
    Column("comp_validity", "bool", "valid by SMACT"),
    Column("comp_fault", "text", "why SMACT refuses it"),
    Column("structure_validity", "bool", "distances and volume"),
    Column("structure_comp_validity", "bool", "both"),
    Column("novel_unique", "bool", "unique and novel"),
    Column("novel_system", "bool", "no reference structure has this chemical system"),
    Column("on_hull", "bool", "on or below the hull"),
    Column("novel_unique_stable", "bool", "MatterGen's S.U.N."),
    Column("novel_unique_on_hull", "bool", "the same with on_hull"),
    Column("reference_size", "int", "structures of the reference"),
    Column("pre_relaxation", "text", "how the pre-relaxation ended"),
    Column("pre_relaxation_steps", "int", "its moves"),
    Column("distance_ok", "bool", "LeMat's distances"),
    Column("plausibility_ok", "bool", "LeMat's plausibility"),
    Column("charge_by", "text", "LeMat's step that found the cell neutral"),
    Column("validity_reason", "text", "why LeMat's gate refused it"),
    Column("density_g_per_cm3", "float", "mass density"),
    Column("a_angstrom", "float", "first cell length, Å"),
    Column("b_angstrom", "float", "second cell length, Å"),
    Column("c_angstrom", "float", "third cell length, Å"),
    Column("packing_factor", "float", "share of the cell within covalent radii"),
    Column("hhi_production", "float", "supply risk, production"),
    Column("hhi_reserve", "float", "supply risk, reserves"),
    Column("*_energy_ev", "float", "of one potential, as submitted, eV"),
    Column("*_relaxed_energy_ev", "float", "of one potential, relaxed, eV"),
    Column("*_relaxation", "text", "how one potential's relaxation ended"),
    Column("*_relaxation_steps", "int", "its moves"),
    Column("*_rmsd_angstrom", "float", "its displacement, Å"),
    Column("*_above_hull_ev_per_atom", "float", "above one potential's hull"),
    Column("ensemble_std_ev_per_atom", "float", "spread of the potentials"),
    Column("n_potentials", "int", "potentials that gave an energy"),
    Column("energy_above_hull_as_submitted_ev_per_atom", "float", "mean over potentials, as submitted"),
    Column("energy_above_hull_relaxed_ev_per_atom", "float", "mean over potentials, relaxed"),
    Column("rmsd_angstrom", "float", "mean displacement over potentials, Å"),
    Column("unique_in_stable", "bool", "first of its kind among the stable"),
    Column("unique_in_metastable", "bool", "first of its kind among the metastable"),
)  # fmt: skip

COLUMNS = {column.name: column for column in _ALL}
"""Columns by name; one with a '*' stands for a family of them."""
_FAMILIES = [
    (re.compile(re.escape(name).replace(r"\*", "(.+)") + "$"), column)
    for name, column in COLUMNS.items()
    if "*" in name
]


@cache
def column(name: str) -> Column:
    """The column of this name, or the family it belongs to.

    Raises:
        AnchorError: There is none: it must be declared above first.
    """
    if name in COLUMNS:
        return COLUMNS[name]
    for pattern, family in _FAMILIES:
        if pattern.match(name):
            return family
    raise AnchorError(f"there is no column '{name}'", nearest(name, COLUMNS))


FIELD_NAMES = {
    ENERGY: "energy",
    ABOVE: "e_above_hull",
    FORMATION: "formation_energy_per_atom",
}
"""What the field calls a column, in files for other programs."""


def declare(new: Column) -> None:
    """Add a column of one's own, such as that of a further protocol.

    Raises:
        AnchorError: Its name is taken.
    """
    if COLUMNS.setdefault(new.name, new) != new:
        raise AnchorError(f"there is a column '{new.name}' already: {COLUMNS[new.name].about}")


def above(hull: str) -> str:
    """Column of the energy above one hull by its name ('dft', 'potential', …)."""
    return ABOVE_EACH.replace("*", hull)

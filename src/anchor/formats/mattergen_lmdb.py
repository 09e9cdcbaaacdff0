"""MatterGen's reference sets (`reference_MP2020correction.gz` and the like): an LMDB file of pickled entries.

Keys are '{chemical system}.{formula}.{n}'; values are ComputedStructureEntry dictionaries. Beside them are an
index of systems and formulas and '….length' counts, which are checked against what is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from anchor.errors import InputError, MissingDependencyError
from anchor.formats import plain_pickle
from anchor.formats.files import Readable
from anchor.formats.pymatgen_json import from_entry
from anchor.formats.records import Found, Item, Skipped, attempt

ENTRY = re.compile(r"(?P<formula>[^.]+\.[^.]+)\.(?P<n>\d+)")
INDEX = re.compile(r"name|chemical_systems|.+\.reduced_formulas")
LENGTH = re.compile(r"(?P<formula>[^.]+\.[^.]+)\.length")


def read(source: Readable) -> Iterator[Item]:
    with source.on_disk() as path:
        yield from _entries(path, source.name)


def _entries(path: Path, name: str) -> Iterator[Item]:
    present: Counter[str] = Counter()
    promised: dict[str, int] = {}
    with _opened(path) as environment, environment.begin() as transaction:
        for raw_key, value in transaction.cursor():
            key = raw_key.decode("utf-8", errors="replace")
            place = f"{name}:{key}"
            if match := ENTRY.fullmatch(key):
                present[match["formula"]] += 1
                yield attempt(place, partial(_entry, value, place, key))
            elif match := LENGTH.fullmatch(key):
                promised[match["formula"]] = int(plain_pickle.loads(value))
            elif not INDEX.fullmatch(key):
                yield Skipped(place, "no key of a MatterGen reference set ('{system}.{formula}.{n}')")
    for formula, length in promised.items():
        for n in range(present[formula], length):
            yield Skipped(f"{name}:{formula}", f"entry {n + 1} of {length} is missing from the file")


def _entry(value: bytes, place: str, key: str) -> Found:
    return from_entry(plain_pickle.loads(value), place, key)


def _opened(path: Path) -> Any:
    try:
        import lmdb
    except ImportError:
        raise MissingDependencyError(
            "reading LMDB files needs the package lmdb", 'pip install "anchor-crystals[lmdb]"'
        ) from None
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=False)
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if needed > path.stat().st_size:  # reading past the end of a mapped file would kill the process
        environment.close()
        raise InputError(f"the LMDB file is cut short: {path.stat().st_size} of {needed} bytes")
    return environment

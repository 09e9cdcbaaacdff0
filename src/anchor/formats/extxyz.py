"""Extended XYZ: every frame of a file, with its energy and the numbers of its comment line."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import ase.io
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from anchor.errors import InputError
from anchor.formats.files import Readable
from anchor.formats.records import Found, Item, Skipped, attempt, from_atoms, named, numeric

MOST_DIGITS = 8
"""Of the number of atoms of a frame."""


def read(source: Readable) -> Iterator[Item]:
    """Frames are cut out one by one, so that a bad one does not take the others with it."""
    with source.open_text() as stream:
        for i in itertools.count(1):
            frame = f"{source.name}:frame {i}"
            count = stream.readline()
            if not count:
                return
            if not count.strip():
                if not stream.read().strip():
                    return
                count = "an empty line"
            if not count.strip().isdecimal() or len(count.strip()) > MOST_DIGITS:
                yield Skipped(
                    frame, f"expected the number of atoms, found {count.strip()[:40]!r}; the rest is unread"
                )
                return
            lines = [count, *itertools.islice(stream, int(count) + 1)]
            yield attempt(frame, _reader(lines, frame, f"{source.stem}-{i}"))


def _reader(lines: list[str], frame: str, id: str) -> Callable[[], Found]:
    def run() -> Found:
        asked, there = columns("".join(lines[1:2])), max((len(x.split()) for x in lines[2:]), default=0)
        if asked > there:  # ASE makes a field for each before it reads a line
            raise InputError(f"Properties name {asked} columns, and no line has more than {there}")
        atoms = ase.io.read(io.StringIO("".join(lines)), index=0, format="extxyz")
        results = atoms.calc.results if atoms.calc else {}
        return from_atoms(frame, named(atoms.info, id), atoms, numeric({**atoms.info, **results}))

    return run


def columns(comment: str) -> int:
    """Columns that a comment line names: 7 for Properties=species:S:1:pos:R:3:forces:R:3; 0 without any."""
    found = re.search(r"""\bProperties\s*=\s*["']?([^\s"']+)""", comment)
    counts = found[1].split(":")[2::3] if found else []
    return sum(int(n) for n in counts if n.isdecimal())


def write(path: Path, atoms: list[Atoms], ids: list[str], properties: list[Mapping[str, float]]) -> None:
    """One file of frames; `energy` as ASE's own energy, the rest beside the id in the comment line.

    That is one line: white space in an id, line breaks above all, becomes single blanks.
    """
    for item, id, values in zip(atoms, ids, properties, strict=True):
        rest = {name: value for name, value in values.items() if name != "energy"}
        item.info = {"material_id": " ".join(id.split()), **rest}
        if "energy" in values:
            item.calc = SinglePointCalculator(item, energy=values["energy"])
    ase.io.write(path, atoms, format="extxyz")

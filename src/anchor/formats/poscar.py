"""POSCAR and CONTCAR, with element names; VASP 4 files that leave them out are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from pymatgen.io.vasp.inputs import Poscar

from anchor.errors import InputError
from anchor.formats.files import Readable
from anchor.formats.records import Found, Item, attempt, from_structure


def read(source: Readable) -> Iterator[Item]:
    yield attempt(source.name, lambda: _crystal(source))


def _crystal(source: Readable) -> Found:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        structure = Poscar.from_str(source.text()).structure
    if any("cannot be determined" in str(warning.message) for warning in caught):
        raise InputError("the line of element names is missing (VASP 4)")
    id = source.plain_name if source.plain_name.startswith(("POSCAR", "CONTCAR")) else source.stem
    return from_structure(source.name, id, structure)

"""CIF: a fast reader for cells written out in full (P1), pymatgen for everything with symmetry, and a writer.

MP-20 and what generators write are P1: the atoms are all there, nothing has to be generated. Those are read
here, coordinates as written. Files with symmetry operations go through pymatgen.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from ase.data import atomic_numbers
from numpy.typing import NDArray
from pymatgen.core import Lattice
from pymatgen.io.cif import CifParser

from anchor.errors import InputError
from anchor.formats.files import Readable
from anchor.formats.records import Found, Item, Skipped, attempt, crystal, from_structure, numeric
from anchor.reading import MOST_DIGITS, whole_number

TOKEN = re.compile(
    r"""^;[\s\S]*?^;                  # text field: from a line that starts with ; to the next such line
      | '(?:[^'\n]|'(?=\S))*'(?=\s|$) # a quote ends where white space follows it
      | "(?:[^"\n]|"(?=\S))*"(?=\s|$)
      | \#[^\n]*
      | \S+""",
    re.MULTILINE | re.VERBOSE,
)
SYMBOL = re.compile(r"([A-Z][a-z]?)(?:\d*\.?\d*[+-]|[+-]\d*)?")  # Na, Na+, Na1+, O2-
SYMMETRY_OPERATIONS = ("_symmetry_equiv_pos_as_xyz", "_space_group_symop_operation_xyz")
GROUP_NUMBERS = ("_symmetry_int_tables_number", "_space_group_it_number")
GROUP_NAMES = ("_symmetry_space_group_name_h-m", "_space_group_name_h-m_alt")
CELL = [f"_cell_length_{x}" for x in "abc"] + [f"_cell_angle_{x}" for x in ("alpha", "beta", "gamma")]
OWN = "_anchor_"
"""Prefix of our private tags: the id and the properties, which CIF has no names for."""


@dataclass
class Block:
    """One data block: single values and loop columns by lower-case tag, and its text."""

    text: str
    values: dict[str, list[str]] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)

    def first(self, *tags: str) -> list[str] | None:
        return next((self.values[tag] for tag in tags if tag in self.values), None)


def read(source: Readable) -> Iterator[Item]:
    """Every crystal of a CIF; blocks without atoms (a journal's preamble) are no crystals."""
    yield from read_text(source.text(), source.name, default_id=source.stem)


def read_text(
    text: str, name: str, *, default_id: str, properties: Mapping[str, float] | None = None
) -> Iterator[Item]:
    """Every crystal of a CIF's text, with the given properties and those of our own tags."""
    blocks = [b for b in parse(text) if any(tag.startswith("_atom_site_") for tag in b.values)]
    if not blocks:
        yield Skipped(name, "no block of this CIF lists atoms")
    for i, block in enumerate(blocks, start=1):
        alone = len(blocks) == 1
        yield attempt(
            name if alone else f"{name}:block {i}",
            _reader(
                block,
                name if alone else f"{name}:block {i}",
                default_id if alone else f"{default_id}-{i}",
                properties or {},
            ),
        )


def _reader(block: Block, source: str, id: str, properties: Mapping[str, float]) -> Callable[[], Found]:
    own = {**numeric(block.own), **properties}
    id = block.own.get("id", id)

    def run() -> Found:
        _check_cell(block)
        sites = _p1_sites(block)
        if sites is None:
            return _by_symmetry(block, source, id, own)
        if missing := [tag for tag in CELL if not block.values.get(tag)]:
            raise InputError(f"{missing[0]} is missing")
        numbers, frac = sites
        lattice = Lattice.from_parameters(*(_number(block.values[tag][0]) for tag in CELL)).matrix
        return crystal(source, id, numbers, frac, lattice, own)

    return run


def _check_cell(block: Block) -> None:
    """Refuse cells, space groups and lists of atoms that cannot be: pymatgen makes something of them."""
    for tag in CELL:
        for text in block.values.get(tag, [])[:1]:
            value, angle = _number(text), "angle" in tag
            if value < 0 or (angle and value >= 180):
                raise InputError(f"{tag} is {text}: not {'an angle of' if angle else 'a length of'} a cell")
    for tag in GROUP_NUMBERS:
        for text in block.values.get(tag, [])[:1]:
            given = re.fullmatch(r"\s*(-?)\+?(\d+)\s*", text)
            if given and (given[1] or not 1 <= (whole_number(given[2]) or 0) <= 230):
                raise InputError(f"there is no space group {text.strip()[:MOST_DIGITS]}")
    sites = {len(values) for tag, values in block.values.items() if tag.startswith("_atom_site_fract")}
    if len(sites) > 1 or 0 in sites:
        raise InputError("its list of atoms is cut off, or a value in it is missing")


def parse(text: str) -> list[Block]:
    """Data blocks of a CIF (version 1.1 without save frames)."""
    blocks: list[Block] = []
    starts: list[int] = []
    columns: list[list[str]] = []  # where values go: the columns of a loop, or the one tag just named
    in_header = False
    place = 0
    for match in TOKEN.finditer(text):
        token = match.group()
        first = token[0]
        if first == "#":
            continue
        lowered = token[:5].lower()
        if lowered == "data_":
            starts.append(match.start())
            blocks.append(Block(text=""))
            columns, in_header = [], False
        elif not blocks:
            continue
        elif lowered == "loop_":
            columns, in_header, place = [], True, 0
        elif first == "_":
            if not in_header:
                columns, place = [], 0
            columns.append([])
            blocks[-1].values[token.lower()] = columns[-1]
            if lowered == OWN[:5] and token.lower().startswith(OWN):
                blocks[-1].own[token[len(OWN) :]] = ""
        elif columns:
            in_header = False
            columns[place % len(columns)].append(_unquoted(token))
            place += 1
    starts.append(len(text))
    for block, start, end in zip(blocks, starts[:-1], starts[1:], strict=True):
        block.text = text[start:end]
        block.own = {name: " ".join(block.values[(OWN + name).lower()]) for name in block.own}
    return blocks


def _unquoted(token: str) -> str:
    if token[0] in "'\"" and len(token) > 1:
        return token[1:-1]
    if token[0] == ";":
        return token[1:-1].strip("\r\n")
    return token


def _number(text: str) -> float:
    """A number, its standard uncertainty in brackets dropped."""
    return float(text.split("(")[0])


def _p1_sites(block: Block) -> tuple[list[int], NDArray[np.float64]] | None:
    """Elements [n] and fractional coordinates [n, 3] of a block without symmetry, else None."""
    operations = block.first(*SYMMETRY_OPERATIONS)
    if operations is not None:
        if [re.sub(r"[\s+]", "", op).lower() for op in operations] != ["x,y,z"]:
            return None
    elif not (
        (block.first(*GROUP_NUMBERS) or [""])[0].strip() == "1"
        or (block.first(*GROUP_NAMES) or [""])[0].replace(" ", "").upper() == "P1"
    ):
        return None
    values = block.values
    symbols = [SYMBOL.fullmatch(text) for text in values.get("_atom_site_type_symbol", [])]
    names = [match.group(1) for match in symbols if match and match.group(1) in atomic_numbers]
    coordinates = [values.get(f"_atom_site_fract_{x}", []) for x in "xyz"]
    occupancies = values.get("_atom_site_occupancy", ["1"] * len(symbols))
    lengths = {len(symbols), len(names), len(occupancies), *map(len, coordinates)}
    if len(lengths) > 1 or not names or any(_number(o) != 1 for o in occupancies if o not in ".?"):
        return None
    frac = np.array([[_number(text) for text in column] for column in coordinates]).T
    return [atomic_numbers[name] for name in names], frac


def _by_symmetry(block: Block, source: str, id: str, properties: Mapping[str, float]) -> Found:
    """Atoms generated from the symmetry by pymatgen."""
    labels = block.first("_atom_site_type_symbol", "_atom_site_label") or []
    for label in labels:  # pymatgen passes over what it does not know; an atom must not vanish
        letters = re.match(r"[A-Za-z]{0,2}", label)
        symbol = letters.group().capitalize() if letters else ""
        if not {symbol, symbol[:1]} & atomic_numbers.keys() - {"X", ""} and symbol[:1] != "D":
            raise InputError(f"'{label}' is no element")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = CifParser.from_str(block.text)
        structures = parser.parse_structures(primitive=False, on_error="raise")
    if any("implicit hydrogens" in warning for warning in parser.warnings):
        raise InputError("hydrogen atoms are implied (a water or OH label) but have no positions")
    return from_structure(source, id, structures[0], properties)


# Writing


def text_of(
    numbers: NDArray[np.int64],
    frac: NDArray[np.float64],
    lattice: NDArray[np.float64],
    *,
    id: str,
    symbols: list[str],
    properties: Mapping[str, float] | None = None,
) -> str:
    """A P1 CIF with ten decimals; id and properties under our own tags.

    CIF keeps lengths and angles only, and reads them as a right-handed cell: a left-handed one is written
    with all axes and coordinates inverted, which moves no atom.
    """
    if np.linalg.det(lattice) < 0:
        frac, lattice = -frac, -lattice
    cell = Lattice(lattice).parameters
    counts = {z: int((numbers == z).sum()) for z in dict.fromkeys(numbers.tolist())}
    formula = " ".join(f"{symbols[z]}{n}" for z, n in counts.items())
    lines = [f"data_{re.sub(r'[^A-Za-z0-9_.+-]', '_', id)}", "_symmetry_space_group_name_H-M 'P 1'"]
    lines += [f"{tag} {value:.10f}" for tag, value in zip(CELL, cell, strict=True)]
    lines += ["_symmetry_Int_Tables_number 1", f"_chemical_formula_sum '{formula}'", f"{OWN}id {_quoted(id)}"]
    lines += [
        f"{OWN}{'_'.join(name.split())} {value!r}"
        for name, value in (properties or {}).items()
        if np.isfinite(value)
    ]
    lines += ["loop_", "_symmetry_equiv_pos_site_id", "_symmetry_equiv_pos_as_xyz", "1 'x, y, z'", "loop_"]
    lines += [f"_atom_site_{column}" for column in ("type_symbol", "label", "symmetry_multiplicity")]
    lines += [f"_atom_site_{column}" for column in ("fract_x", "fract_y", "fract_z", "occupancy")]
    for i, (z, (x, y, w)) in enumerate(zip(numbers.tolist(), frac.tolist(), strict=True)):
        lines.append(f"{symbols[z]} {symbols[z]}{i} 1 {x:.10f} {y:.10f} {w:.10f} 1")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    for quote in "'\"":
        if quote not in text and "\n" not in text:
            return f"{quote}{text}{quote}"
    return f"\n;{text}\n;"

"""`write`: crystals with ids and properties to the formats that others read."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from ase.data import chemical_symbols
from numpy.typing import ArrayLike

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.formats import ase_db, cif, extxyz, pymatgen_json, table
from anchor.writing import check_place, draft, safe_name

Labels = list[Mapping[str, float]]


def _extxyz(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    extxyz.write(path, crystals.to_atoms(), ids, labels)


def _ase(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    ase_db.write(path, crystals.to_atoms(), ids, labels)


def _json(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    pymatgen_json.write(path, crystals.to_structures(), ids, labels)


def _cif_texts(crystals: Crystals, ids: list[str], labels: Labels) -> dict[str, str]:
    """File name and CIF of each crystal; ids that would share a name are numbered."""
    texts: dict[str, str] = {}
    taken: set[str] = set()  # in lower case: some file systems do not tell 'CO' from 'Co'
    for one, id, values in zip(crystals, ids, labels, strict=True):
        stem = safe_name(id, otherwise="crystal")
        name, n = f"{stem}.cif", 1
        while name.lower() in taken:
            n += 1
            name = f"{stem}-{n}.cif"
        taken.add(name.lower())
        texts[name] = cif.text_of(
            one.numbers, one.frac, one.lattice[0], id=id, symbols=chemical_symbols, properties=values
        )
    return texts


def _cif_folder(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    path.mkdir()
    for name, text in _cif_texts(crystals, ids, labels).items():
        (path / name).write_text(text, encoding="utf-8")


def _cif_archive(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _cif_texts(crystals, ids, labels).items():
            archive.writestr(
                zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED
            )  # no clock: same bytes each time


def _cif_file(path: Path, crystals: Crystals, ids: list[str], labels: Labels) -> None:
    path.write_text("\n".join(_cif_texts(crystals, ids, labels).values()), encoding="utf-8")


WRITERS: dict[str, tuple[tuple[str, ...], Callable[[Path, Crystals, list[str], Labels], None]]] = {
    "ase": ((".db",), _ase),
    "cif": ((".cif",), _cif_file),
    "cif-folder": (("",), _cif_folder),
    "cif-zip": ((".zip",), _cif_archive),
    "csv": ((".csv",), table.write_csv),
    "extxyz": ((".extxyz", ".xyz"), _extxyz),
    "json": ((".json", ".json.gz"), _json),
    "parquet": ((".parquet",), table.write_parquet),
}
"""Format: the endings of file names that mean it, and what writes it."""


def write(
    path: str | PathLike[str],
    crystals: Crystals,
    ids: Sequence[str] | None = None,
    properties: Mapping[str, ArrayLike] | None = None,
    *,
    format: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write crystals as the ending of `path` says (see `WRITERS`); no ending means a folder of CIFs.

    All formats keep ids and properties. Cell orientation is kept by all but CIF and CSV (which holds CIFs).
    The file appears only once it is complete.

    Args:
        path: Where to.
        crystals: The n crystals.
        ids: One name each; 'crystal-0', 'crystal-1', … when not given.
        properties: Numbers by name, NaN where missing (missing ones are left out).  # each [n]
        format: One of `WRITERS`, in place of the ending.
        overwrite: Replace an existing file. A folder is never replaced.
    """
    path = Path(path)
    writer = WRITERS[check_ending(path, format)][1]
    check_place(path, overwrite=overwrite)
    names = [f"crystal-{i}" for i in range(len(crystals))] if ids is None else [str(id) for id in ids]
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in (properties or {}).items()}
    lengths = {"ids": len(names), **{name: len(values) for name, values in columns.items()}}
    for name, length in lengths.items():
        if length != len(crystals):
            raise InputError(f"{name}: {length} values for {len(crystals)} crystals")
    labels: Labels = [
        {name: float(values[i]) for name, values in columns.items() if np.isfinite(values[i])}
        for i in range(len(crystals))
    ]
    with draft(path) as made:
        writer(made, crystals, names, labels)
    return path


def check_ending(path: Path, format: str | None = None) -> str:
    """The format that a file name or its own name means, one of `WRITERS`; to be asked before the work.

    Raises:
        InputError: There is none.
    """
    if format is not None:
        if format not in WRITERS:
            raise InputError(f"cannot write the format '{format}'", nearest(format, WRITERS))
        return format
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    for name, (endings, _) in WRITERS.items():
        if ending.lower() in endings:
            return name
    known = sorted(e for endings, _ in WRITERS.values() for e in endings if e)
    raise InputError(
        f"cannot tell a format from the ending of {path.name}", f"known endings: {', '.join(known)}"
    )

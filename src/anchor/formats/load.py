"""`load`: crystals from any of the formats people have them in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from anchor.errors import InputError, nearest
from anchor.formats import ase_db, cif, extxyz, mattergen_lmdb, poscar, pymatgen_json, table
from anchor.formats.files import Readable, format_by_content, format_by_name, refuse_pointer, sources
from anchor.formats.records import Found, Item, LoadedCrystals, Skipped, assemble, guarded

OnError = Literal["raise", "skip"]

READERS: dict[str, Callable[[Readable], Iterator[Item]]] = {
    "ase": ase_db.read,
    "cif": cif.read,
    "csv": table.read_csv,
    "extxyz": extxyz.read,
    "json": pymatgen_json.read,
    "lmdb": mattergen_lmdb.read,
    "parquet": table.read_parquet,
    "poscar": poscar.read,
}
"""One reader per format: it yields every entry of a file, each as a crystal or as the reason why not."""


def load(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    format: str | None = None,
    on_error: OnError = "raise",
    limit: int | None = None,
) -> LoadedCrystals:
    """Load all crystals of files, folders and zip archives, in order.

    Args:
        paths: One path or several. Folders are searched with all below, in natural order of names.
        format: One of `READERS`; None tells it from each file's name, then from its content.
        on_error: 'raise' stops at the first entry that gives no ordered, periodic crystal and names it;
            'skip' leaves it out, with the reason in `skipped`.
        limit: Stop after so many crystals.
    """
    if format is not None and format not in READERS:
        raise InputError(f"unknown format '{format}'", nearest(format, READERS))
    if on_error not in get_args(OnError):
        raise InputError(f"on_error='{on_error}' is unknown", nearest(on_error, get_args(OnError)))
    if limit is not None and limit < 1:
        raise InputError(f"limit={limit} must be at least 1")
    given = [Path(p) for p in ([paths] if isinstance(paths, (str, PathLike)) else paths)]
    for path in given:
        if not path.exists():
            raise InputError(f"there is no file or folder {path}", _neighbour(path))

    ignored: list[str] = []
    found: list[Found] = []
    skipped: list[Skipped] = []
    n_read = 0
    for item in _items(sources(given, every=format is not None, ignored=ignored), format):
        n_read += 1
        if isinstance(item, Found):
            found.append(item)
            if len(found) == limit:
                break
        elif on_error == "raise":
            raise InputError(
                f"{item.source}: {item.reason}",
                "to leave bad entries out and have them counted: on_error='skip' (--on-error skip)",
            )
        else:
            skipped.append(item)
    if not n_read:
        passed_over = f" ({len(ignored)} other files: {', '.join(ignored[:3])} …)" if ignored else ""
        raise InputError(
            f"no crystals in {', '.join(map(str, given)) or 'an empty list of paths'}{passed_over}"
        )
    return assemble(found, skipped, n_read=n_read, ignored=ignored)


def _items(files: Iterable[Readable | Skipped], format: str | None) -> Iterator[Item]:
    for source in files:
        if isinstance(source, Skipped):
            yield source
        else:
            yield from guarded(source.name, _read(source, format))


def _read(source: Readable, format: str | None) -> Iterator[Item]:
    refuse_pointer(source)
    kind = format or format_by_name(source) or format_by_content(source)
    if kind is None:
        raise InputError(f"unknown kind of file; name its format, one of: {', '.join(READERS)}")
    yield from READERS[kind](source)


def _neighbour(path: Path) -> str | None:
    """A file of the same folder with almost that name."""
    folder = path.parent
    hint = nearest(path.name, [p.name for p in folder.iterdir()]) if folder.is_dir() else ""
    return hint if hint.startswith("did you mean") else None

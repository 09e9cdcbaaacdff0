"""`anchor export`: a campaign's crystals for ASE, pymatgen, pandas and others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import JsonFlag, Overwrite, emit
from anchor.errors import InputError, nearest

SUFFIXES = {
    "extxyz": ".extxyz",
    "ase": ".db",
    "pymatgen": ".json",
    "parquet": ".parquet",
    "csv": ".csv",
    "cif": "",
}


def export(
    folder: Annotated[str, typer.Argument(help="Folder of the campaign, ledger file or database URL.")],
    format: Annotated[str, typer.Option(help="cif, extxyz, ase, pymatgen, parquet or csv.")] = "cif",
    out: Annotated[Path | None, typer.Option(help="File or folder; default: FOLDER/export.*")] = None,
    which: Annotated[str, typer.Option(help="finds, or valid for every valid candidate.")] = "finds",
    most: Annotated[float | None, typer.Option(help="At most this far above the hull, eV/atom.")] = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write the crystals of a campaign with their energies.

    Example: anchor export runs/first --format extxyz --which valid --most 0.1
    """
    from anchor.search.export import export as write_export
    from anchor.search.ledger import Ledger

    if format not in SUFFIXES:
        raise InputError(f"unknown format '{format}'", nearest(format, SUFFIXES))
    base = Path(folder) if Path(folder).is_dir() else Path.cwd()
    path = out or base / f"export-{which}{SUFFIXES[format]}"
    n = write_export(Ledger.open(folder), path, which=which, most=most, overwrite=overwrite)
    emit({"file": path, "crystals": n}) if json else typer.echo(f"wrote {n} crystals to {path}")

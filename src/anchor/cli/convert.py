"""`anchor data convert`: from any format that anchor reads to any that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from anchor.cli.common import InputFormat, JsonFlag, Overwrite, emit
from anchor.errors import InputError


def convert(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files, folders or zip archives: CIF, POSCAR, extxyz, CSV, Parquet, JSON, ASE db, LMDB."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Result: .extxyz, .csv, .parquet, .json[.gz], .db, .cif, .zip of CIFs; no ending: folder."
        ),
    ],
    format: InputFormat = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="Format of the result, when its name does not tell.")
    ] = None,
    on_error: Annotated[
        Literal["raise", "skip"],
        typer.Option(help="Stop at an entry that gives no crystal, or leave it out."),
    ] = "raise",
    n: Annotated[int | None, typer.Option("-n", min=1, help="How many crystals at most.")] = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Convert crystals from one format to another, with their ids and properties.

    Example: anchor data convert mp_20/train.csv --out train.extxyz --on-error skip
    """
    from anchor.formats import load, write
    from anchor.formats.write import check_ending
    from anchor.writing import check_place

    check_ending(out, as_)
    check_place(out, overwrite=overwrite)
    loaded = load(files, format=format, on_error=on_error, limit=n)
    if not len(loaded):
        first = loaded.skipped[0]
        raise InputError(f"none of {loaded.n_read} entries gave a crystal; {first.source}: {first.reason}")
    write(out, loaded.crystals, loaded.ids, loaded.properties, format=as_, overwrite=overwrite)
    duplicates = loaded.duplicate_ids
    if as_json:
        emit(
            {
                "out": out,
                "read": loaded.n_read,
                "crystals": len(loaded),
                "skipped": [{"source": s.source, "reason": s.reason} for s in loaded.skipped],
                "ignored_files": loaded.ignored,
                "duplicate_ids": duplicates,
                "properties": sorted(loaded.properties),
            }
        )
        return
    typer.echo(f"{len(loaded)} crystals of {loaded.n_read} entries read -> {out}")
    for skipped in loaded.skipped:
        typer.echo(f"skipped {skipped.source}: {skipped.reason}", err=True)
    if duplicates:
        shown = ", ".join(list(duplicates)[:5])
        typer.echo(f"{len(duplicates)} ids stand for several crystals (all kept): {shown}", err=True)
    if loaded.ignored:
        typer.echo(f"{len(loaded.ignored)} other files passed over", err=True)

"""`anchor export`: crystals of a campaign or a catalogue for other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchor.cli.common import Condition, JsonFlag, Overwrite, Symbols, emit, print_table, selection
from anchor.errors import InputError


def export(
    place: Annotated[
        str | None,
        typer.Argument(help="Campaign (folder, ledger file, URL), 'catalogue', or a catalogue's .npz file."),
    ] = None,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="cif, extxyz, ase-db, parquet, csv, json, entries, optimade, vasp, qe, gpaw or atomate2; "
            "default: by the ending of --out, else cif.",
        ),
    ] = None,
    condition: Condition = None,
    elements: Symbols = None,
    which: Annotated[
        Literal["finds", "refined", "valid", "all"] | None,
        typer.Option(
            help="Of a campaign: finds (default), all that were refined (near and far ones, too), every "
            "valid candidate, or all with a crystal."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File or folder; default: export-… beside the ledger.")
    ] = None,
    fields: Annotated[bool, typer.Option("--fields", help="List what --where can ask for.")] = False,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write crystals with their energies, or inputs of DFT codes for them.

    Examples:

      anchor export runs/first --which refined --where "e_hull < 0.03 and nelements = 3"
      anchor export catalogue --elements Na,Mn,P,O --out sodium.parquet
      anchor export runs/first --where "level >= 3" --as vasp --out calculations
    """
    if fields:
        _fields(json)
        return
    if place is None:
        raise InputError("nothing is named to export", "name a campaign's folder, or 'catalogue'")
    wanted = selection(condition, elements)
    from anchor.exports.chosen import choose
    from anchor.exports.writers import EXPORTS, export_kind
    from anchor.exports.writers import export as write
    from anchor.writing import check_place

    kind = export_kind(as_, out)
    path = out or _beside(place) / f"export-{which or 'finds'}{_apart(kind)}{EXPORTS[kind].ending}"
    check_place(path, overwrite=overwrite)
    chosen = choose(place, wanted, which=which)
    write(chosen, kind, path, overwrite=overwrite)
    add = EXPORTS[kind].add
    if json:
        emit({"file": path, "crystals": len(chosen), "as": kind, "to_be_added": add})
        return
    typer.echo(f"wrote {len(chosen)} crystals to {path}" + (f"\nto be added: {add}" if add else ""))


def _apart(kind: str) -> str:
    """Kinds that share an ending have names of their own."""
    return "" if kind in ("cif", "extxyz", "ase-db", "parquet", "csv", "json", "optimade") else f"-{kind}"


def _beside(place: str) -> Path:
    """The campaign's folder where one may write, else the current one."""
    folder = Path(place)
    return folder if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else Path()


def _fields(json: bool) -> None:
    from anchor.selecting import FIELDS

    if json:
        rows: list[dict[str, Any]] = [
            {"name": f.name, "kind": f.kind, "unit": f.unit, "about": f.about, "also": f.also}
            for f in FIELDS.values()
        ]
        emit(rows)
        return
    print_table(
        ["field", "kind", "unit", "meaning"],
        ([field.name, field.kind, field.unit or "–", field.about] for field in FIELDS.values()),
    )

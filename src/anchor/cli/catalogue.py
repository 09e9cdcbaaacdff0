"""`anchor catalogue`: what searches have found so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import (
    Cardinalities,
    Condition,
    Exclude,
    JsonFlag,
    MustContain,
    Overwrite,
    Symbols,
    command_line,
    emit,
    print_table,
    selection,
)
from anchor.cli.help import App
from anchor.cli.program import program
from anchor.errors import InputError
from anchor.reading import whole_number

if TYPE_CHECKING:
    from anchor.catalogue.catalogue import Catalogue, Entry

app = App(help="Crystals that searches have found, with their evidence.", no_args_is_help=True)

File = Annotated[Path | None, typer.Option("--file", help="Catalogue; default: the one that ships.")]
Most = Annotated[
    float | None,
    typer.Option("--most", help="At most so far above the hull with all entries on it, eV/atom."),
]


@app.command("list")
def list_entries(
    elements: Symbols = None,
    must_contain: MustContain = None,
    exclude: Exclude = None,
    k: Cardinalities = None,
    most: Most = None,
    condition: Condition = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many entries to show.")] = 20,
    file: File = None,
    json: JsonFlag = False,
) -> None:
    """Entries within limits: what survived most first, then the lowest energy above the hull.

    Example: anchor catalogue list --must-contain Na --most 0 -n 50
    """
    whole = _load(file)
    chosen = _select(whole, elements, must_contain, exclude, k, most, condition)
    if json:
        emit({"counts": chosen.counts(), "entries": [_row(entry) for entry in _first(chosen, n)]})
        return
    counts = chosen.counts()
    typer.echo(
        f"{counts['entries']} of {len(whole)} entries; {counts['stable']} on the hulls, "
        f"{counts['stable_with_finds']} of them with all entries competing; "
        f"{counts['in_thin_systems']} in systems that the databases hardly know"
    )
    print_table(
        ["no.", "formula", "space group", "E_hull eV/atom", "with entries", "OQMD", "MP", "level", "note"],
        (
            [e.number, e.formula, e.spacegroup, f"{e.above_hull:+.3f}", f"{e.above_with_finds:+.3f}",
             _signed(e.above.get("oqmd")), _signed(e.above.get("mp")), e.level or "–",
             e.why or (f"thin: {e.thin}" if e.thin else "")]
            for e in _first(chosen, n)
        ),
    )  # fmt: skip
    if len(chosen) > n:
        typer.echo(f"and {len(chosen) - n} more: -n {len(chosen)}, or {program()} export catalogue")


@app.command()
def show(
    entry: Annotated[str, typer.Argument(help="Number or formula of an entry.")],
    file: File = None,
    json: JsonFlag = False,
) -> None:
    """One entry with its energies and its cell.

    Example: anchor catalogue show KYSe2
    """
    found = _load(file).find(entry)
    structure = found.crystal.to_structures()[0]
    if json:
        emit({**_row(found), "structure": structure.as_dict()})
        return
    lengths, angles = structure.lattice.abc, structure.lattice.angles
    rows = [
        ("formula", found.formula),
        ("space group", found.spacegroup),
        ("energy above the hull that counts", f"{found.above_hull:+.4f} eV/atom"),
        ("… with all entries on it", f"{found.above_with_finds:+.4f} eV/atom"),
        *((f"… of {name.upper()}", f"{value:+.4f} eV/atom") for name, value in found.above.items()),
        ("formation energy", f"{found.formation_energy:+.4f} eV/atom"),
        ("verified to level", str(found.level or "not verified")),
        *([("failed the next because", found.why)] if found.why else []),
        *([("thinly known system", found.thin)] if found.thin else []),
        ("cell, Å", "  ".join(f"{x:.4f}" for x in lengths)),
        ("angles, °", "  ".join(f"{x:.2f}" for x in angles)),
    ]
    print_table([f"no. {found.number}", ""], rows)
    print_table(
        ["element", "x", "y", "z"],
        ([site.specie.symbol, *(f"{x:.5f}" for x in site.frac_coords)] for site in structure),
    )


@app.command()
def build(
    campaigns: Annotated[
        list[str], typer.Argument(help="Folders of campaigns; 'catalogue' or a .npz file: its entries join.")
    ],
    out: Annotated[Path, typer.Option(help="File to write, .npz; its card goes beside it.")],
    most: Annotated[float, typer.Option(help="At most so far above the hull, eV/atom.")] = 0.1,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Make a catalogue of the finds of campaigns (`anchor search --finds 1000` relaxes that many).

    Examples:

      anchor catalogue build runs/first runs/second --out mine.npz

      anchor catalogue build runs/third catalogue --out larger.npz      what ships, and more
    """
    from anchor.catalogue.build import build_catalogue
    from anchor.catalogue.catalogue import save_catalogue
    from anchor.writing import check_place

    if out.suffix != ".npz":
        raise InputError(f"'{out}' does not end in .npz")
    for path in (out, out.with_suffix(".json")):
        check_place(path, overwrite=overwrite)
    made = build_catalogue(campaigns, most=most, command=command_line())
    save_catalogue(out, made)
    emit({"file": out, **made.counts()}) if json else print_table(["what", "count"], made.counts().items())


def _load(file: Path | None) -> Catalogue:
    from anchor.catalogue.catalogue import SHIPPED, load_catalogue

    return load_catalogue(file or SHIPPED)


def _select(
    whole: Catalogue,
    elements: str | None,
    must_contain: str | None,
    exclude: str | None,
    k: str | None,
    most: float | None,
    where: str | None,
) -> Catalogue:
    import numpy as np

    from anchor.exports.chosen import catalogue_rows

    wanted = selection(where, None)  # what is misspelt is refused before anything is read
    found = whole.select(
        elements=_symbols(elements) if elements is not None else None,
        must_contain=_symbols(must_contain),
        exclude=_symbols(exclude),
        k=_numbers(k) if k is not None else None,
        most=most,
    )
    rows = catalogue_rows(found) if where is not None else []
    keep = [i for i, row in enumerate(rows) if wanted.holds(row)]
    return found if where is None else found.take(np.array(keep, dtype=np.int64))


def _symbols(text: str | None) -> tuple[str, ...]:
    from anchor.chemistry.symbols import read_symbols

    return () if text is None else read_symbols(text)


def _numbers(text: str) -> list[int]:
    found = [whole_number(part.strip()) for part in text.split(",") if part.strip()]
    numbers = [number for number in found if number is not None]
    if not found or len(numbers) < len(found):
        raise InputError(f"'--k {text}' is not a list of numbers", "for example --k 2,3")
    return numbers


def _first(catalogue: Catalogue, n: int) -> list[Entry]:
    return [catalogue[i] for i in range(min(n, len(catalogue)))]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _row(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in vars(entry).items() if name != "crystal"}

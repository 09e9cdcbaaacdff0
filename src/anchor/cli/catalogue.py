"""`anchor catalogue`: what searches have found so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import JsonFlag, Overwrite, command_line, emit, print_table
from anchor.errors import InputError

if TYPE_CHECKING:
    from anchor.catalogue.catalogue import Catalogue, Entry

app = typer.Typer(help="Crystals that searches have found, with their evidence.", no_args_is_help=True)

File = Annotated[Path | None, typer.Option("--file", help="Catalogue; default: the one that ships.")]
Symbols = Annotated[str | None, typer.Option(help="Comma-separated element symbols.")]
Cardinalities = Annotated[str | None, typer.Option("--k", help="Numbers of elements, e.g. 2,3.")]
Most = Annotated[
    float | None,
    typer.Option("--most", help="At most so far above the hull with all entries on it, eV/atom."),
]
AtLeast = Annotated[int | None, typer.Option("--level", min=0, max=6, help="Passed at least this level.")]


@app.command("list")
def list_entries(
    elements: Symbols = None,
    must_contain: Symbols = None,
    exclude: Symbols = None,
    k: Cardinalities = None,
    most: Most = None,
    level: AtLeast = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Most entries to show.")] = 20,
    file: File = None,
    json: JsonFlag = False,
) -> None:
    """Entries within limits: what survived most first, then the lowest energy above the hull.

    Example: anchor catalogue list --must-contain Na --most 0 -n 50
    """
    whole = _load(file)
    chosen = _select(whole, elements, must_contain, exclude, k, most, level)
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
        typer.echo(f"and {len(chosen) - n} more: -n {len(chosen)}, or anchor catalogue export")


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
def export(
    out: Annotated[
        Path,
        typer.Option(
            help="By its ending: extxyz, db (ASE), json, parquet, csv, zip; none: a folder of CIFs."
        ),
    ],
    elements: Symbols = None,
    must_contain: Symbols = None,
    exclude: Symbols = None,
    k: Cardinalities = None,
    most: Most = None,
    level: AtLeast = None,
    file: File = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Write entries for ASE, pymatgen, pandas and others.

    Example: anchor catalogue export --must-contain Na --most 0 --out sodium.extxyz
    """
    import numpy as np

    from anchor.formats import write

    chosen = _select(_load(file), elements, must_contain, exclude, k, most, level)
    if not len(chosen):
        raise InputError("no entry is within these limits", "see what there is: anchor catalogue list")
    properties = {
        "e_above_hull": chosen.above_hull,
        "e_above_hull_with_entries": chosen.above_with_finds,
        "e_above_oqmd_hull": chosen.above_oqmd,
        "e_above_mp_hull": chosen.above_mp,
        "formation_energy_per_atom": chosen.formation_energy,
        "verified_to_level": chosen.level.astype(np.float64),
    }
    ids = [f"{number}-{formula}" for number, formula in zip(chosen.number, chosen.formulas, strict=True)]
    path = write(out, chosen.crystals, ids, properties, overwrite=overwrite)
    emit({"file": path, "crystals": len(chosen)}) if json else typer.echo(
        f"wrote {len(chosen)} crystals to {path}"
    )


@app.command()
def build(
    campaigns: Annotated[list[str], typer.Argument(help="Folders of campaigns on one hull.")],
    out: Annotated[Path, typer.Option(help="File to write, .npz; its card goes beside it.")],
    most: Annotated[float, typer.Option(help="At most this far above the hull, eV/atom.")] = 0.1,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Make a catalogue of the finds of campaigns (`anchor search --finds 1000` relaxes that many).

    Example: anchor catalogue build runs/first runs/second --out mine.npz
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
    level: int | None,
) -> Catalogue:
    return whole.select(
        elements=_symbols(elements) if elements is not None else None,
        must_contain=_symbols(must_contain),
        exclude=_symbols(exclude),
        k=_numbers(k) if k is not None else None,
        most=most,
        level=level,
    )


def _symbols(text: str | None) -> list[str]:
    from anchor.chemistry.elements import NUMBER
    from anchor.errors import nearest

    found = [part.strip() for part in (text or "").split(",") if part.strip()]
    for symbol in found:
        if symbol not in NUMBER:
            raise InputError(f"'{symbol}' is not an element", nearest(symbol.capitalize(), NUMBER))
    return found


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise InputError(f"'--k {text}' is not a list of numbers", "for example --k 2,3")
    return [int(part) for part in parts]


def _first(catalogue: Catalogue, n: int) -> list[Entry]:
    return [catalogue[i] for i in range(min(n, len(catalogue)))]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _row(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in vars(entry).items() if name != "crystal"}

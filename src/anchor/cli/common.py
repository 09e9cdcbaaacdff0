"""What every command shares: options, output, progress, errors."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from anchor.cli.program import as_called

if TYPE_CHECKING:
    from anchor.selecting import Selection

T = TypeVar("T")
MANY = 20
"""Crystals from which on a file of messages hears of every tenth of them."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of every random draw: same seed, same result.")
]
Prior = Annotated[
    str,
    typer.Option("--prior", help="Name of a prior, as in `anchor prior list`, or its .safetensors file."),
]
InputFormat = Annotated[
    str | None,
    typer.Option("--format", help="Format of the input, when its names do not tell: cif, poscar, extxyz, …"),
]
Hours = Annotated[
    float | None, typer.Option("--hours", min=0.0, help="Stop after so many hours; the same command goes on.")
]

POTENTIAL_HELP = "Name of a potential, as in `anchor potentials list`"
Potential = Annotated[str, typer.Option("--potential", help=f"{POTENTIAL_HELP}.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; default: one for each core.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or mps.")]
Cell = Annotated[bool, typer.Option("--cell/--fixed-cell", help="Relax the cell too, or positions only.")]
MaxSteps = Annotated[int, typer.Option("--max-steps", min=0, help="Most steps of a relaxation.")]
Fmax = Annotated[float, typer.Option("--fmax", min=0.0, help="Force at which a relaxation ends, eV/Å.")]
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Do not relax with the potential first: the structures are relaxed.")
]
Symbols = Annotated[
    str | None, typer.Option("--elements", help="Comma-separated symbols: these elements only.")
]
MustContain = Annotated[
    str | None, typer.Option("--must-contain", help="Comma-separated symbols: all of these elements.")
]
Exclude = Annotated[
    str | None, typer.Option("--exclude", help="Comma-separated symbols: none of these elements.")
]
Cardinalities = Annotated[str | None, typer.Option("--k", help="Numbers of elements, e.g. 2,3.")]
Condition = Annotated[
    str | None,
    typer.Option(
        "--where", help='Condition, as "e_hull < 0.03 and nelements = 3"; fields: anchor export --fields.'
    ),
]


def selection(where: str | None, elements: str | None) -> Selection:
    """What --where and --elements ask for together."""
    from anchor.chemistry.symbols import read_symbols
    from anchor.selecting import everything, made_of, parse

    wanted = parse(where) if where is not None else everything()
    return wanted & made_of(read_symbols(elements)) if elements is not None else wanted


def command_line() -> str:
    """The command as typed, for cards."""
    return shlex.join(["anchor", *sys.argv[1:]])


def emit(document: Any) -> None:
    """Print a JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, paths and sets as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


NOTHING = ("", "-", "–")
"""Cells that say nothing: on a terminal a column of them is left out."""
SHORT = 12
"""Characters of a cell that is never broken."""


def print_table(columns: list[str], rows: Iterable[Iterable[Any]], *, title: str | None = None) -> None:
    """A table on standard output: drawn on a terminal, tab-separated when piped.

    On a terminal that is too narrow for its columns each row is a block of lines.
    """
    if not sys.stdout.isatty():
        typer.echo("\t".join(columns))
        for row in rows:
            typer.echo("\t".join(as_called(str(cell)) for cell in row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    texts = [[as_called(str(cell)) for cell in row] for row in rows]
    shown = [i for i in range(len(columns)) if not texts or any(row[i] not in NOTHING for row in texts)]
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    least = 0
    for i in shown:
        widest = max((len(row[i]) for row in texts), default=0)
        head = max(map(len, columns[i].split()), default=1)
        # a number cut off is no number; a head may take several lines
        width = max(head, min(widest, SHORT))
        table.add_column(
            textwrap.fill(columns[i], width), min_width=width, no_wrap=widest <= SHORT, overflow="fold"
        )
        least += width + 2
    for row in texts:
        table.add_row(*(Text(row[i]) for i in shown))
    console = Console()
    if least <= console.width:
        console.print(table)
        return
    if title:
        console.print(Text(title, style="bold"))
    wide = max(len(columns[i]) for i in shown)
    for row in texts:
        console.print()
        for i in shown:
            if row[i] not in NOTHING:
                console.print(Text(f"{columns[i]:<{wide}}  {row[i]}"), soft_wrap=True)


def say(text: str, quiet: bool = False) -> None:
    """A line on standard error, where progress goes; with --json nobody reads it."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def relaxed_line(done: int, total: int) -> None:
    """How many are relaxed: one line that is written over on a terminal, a few lines elsewhere."""
    if sys.stderr.isatty():
        print(f"\rrelaxed {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or (total >= MANY and done * 10 // total > (done - 1) * 10 // total):
        print(f"relaxed {done}/{total}", file=sys.stderr, flush=True)


def progress(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
    """Iterate with a progress bar and ETA on a terminal, a plain line every tenth otherwise (on stderr)."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        yield from track(items, total=total, description=label, console=Console(stderr=True))
        return
    import time

    start, tenth = time.monotonic(), 0
    for done, item in enumerate(items, start=1):
        yield item
        if total and done * 10 // total > tenth:
            tenth = done * 10 // total
            elapsed = time.monotonic() - start
            left = elapsed / done * (total - done)
            print(
                f"{label}: {done}/{total}, {elapsed:.0f} s, about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )

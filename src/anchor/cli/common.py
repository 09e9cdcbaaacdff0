"""What every command shares: options, output, progress, errors."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import typer

T = TypeVar("T")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of every random draw: same seed, same result.")
]


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


def print_table(columns: list[str], rows: Iterable[Iterable[Any]], *, title: str | None = None) -> None:
    """A table on standard output: drawn on a terminal, tab-separated when piped."""
    if not sys.stdout.isatty():
        typer.echo("\t".join(columns))
        for row in rows:
            typer.echo("\t".join(str(cell) for cell in row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


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

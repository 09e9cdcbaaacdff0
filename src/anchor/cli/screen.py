"""`anchor screen`: charge-neutral formulas ranked by what can be known of them without a crystal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchor.cli.common import (
    Cardinalities,
    Exclude,
    JsonFlag,
    MustContain,
    Overwrite,
    Symbols,
    emit,
    print_table,
    progress,
)
from anchor.cli.search import Counts, MaxAtoms, action_space
from anchor.cli.where import NOWHERE, Where, works_somewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anchor.screening.ranking import Ranking

SHOWN = 25
"""Rows on a terminal; a pipe, a file and JSON get all."""


@works_somewhere
def screen(
    n: Annotated[int, typer.Option("-n", min=1, max=10_000_000, help="How many formulas.")] = 1000,
    elements: Symbols = None,
    exclude: Exclude = None,
    must_contain: MustContain = None,
    k: Cardinalities = None,
    max_atoms: MaxAtoms = None,
    counts: Counts = None,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Keep formulas that a database lists.")
    ] = False,
    where: Where = NOWHERE,
    out: Annotated[Path | None, typer.Option(help="CSV file to write.")] = None,
    overwrite: Overwrite = False,
    json: JsonFlag = False,
) -> None:
    """Rank charge-neutral formulas by their chance of being stable.

    Nothing is relaxed. All binaries and ternaries are considered, and quaternaries within reach of a known
    crystal. The order is that in which `anchor search --source screened` proposes: best first, but not all of
    one family.

    Examples:

      anchor screen -n 1000 --out best.csv
      anchor screen --elements Li,Fe,P,O -n 50
      anchor screen --must-contain Na --exclude Pb,Cd,Hg --k 3 --json
    """
    wishes = action_space(elements, exclude, must_contain, k, max_atoms, counts)  # before anything is loaded

    from anchor.config import load_config
    from anchor.executors import Workplace
    from anchor.policy.constraints import Limits
    from anchor.screening.order import screened_order
    from anchor.search.policies import searchable_elements
    from anchor.writing import check_place, draft

    if out is not None:
        check_place(out, overwrite=overwrite)
    config = load_config(values={f"action_space.{name}": value for name, value in wishes.items()}).config
    limits = Limits.from_config(config.action_space, searchable=searchable_elements(config))
    with Workplace(**(where or {"executor": "inline"})).open() as executor:
        order = screened_order(
            limits,
            n,
            include_known=include_known,
            executor=executor,
            on_family=_bar("families of formulas"),
        )
    order = order[: min(n, len(order))]
    rows = _rows(order)
    if out is not None:
        with draft(out) as made, made.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["rank"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if json:
        emit({**_summary(order), "file": out, "formulas": rows})
        return
    shown = rows[: SHOWN if sys.stdout.isatty() else len(rows)]
    print_table(
        ["rank", "formula", "P(within 0.1 eV/atom)", "P(on the hull)", "E_hull eV/atom", "spread"],
        (
            [
                row["rank"],
                row["formula"],
                f"{row['chance_metastable']:.3f}",
                f"{row['chance_stable']:.3f}",
                f"{row['estimated_above_hull_ev_per_atom']:+.3f}",
                f"{row['spread_ev_per_atom']:.3f}",
            ]
            for row in shown
        ),
    )
    said = _summary(order)
    note = "" if said["complete"] else "; quaternaries further from known crystals were not considered"
    print(
        f"{len(rows)} of {said['considered']:,} charge-neutral formulas considered"
        + (f", {len(rows) - len(shown)} more with --out FILE" if len(shown) < len(rows) else "")
        + note
        + (f"\nwritten to {out}" if out is not None else ""),
        file=sys.stderr,
    )


def _rows(order: Ranking) -> list[dict[str, Any]]:
    cells = order.compositions
    return [
        {
            "rank": rank,
            "formula": formula,
            "cell": cell,
            "chance_metastable": chance,
            "chance_stable": stable,
            "estimated_above_hull_ev_per_atom": round(above, 4),
            "spread_ev_per_atom": round(spread, 4),
        }
        for rank, (formula, cell, chance, stable, above, spread) in enumerate(
            zip(
                cells.formulas,
                cells.cells,
                order.metastable.tolist(),
                order.stable.tolist(),
                order.above_hull.tolist(),
                order.spread.tolist(),
                strict=True,
            ),
            start=1,
        )
    ]


def _summary(order: Ranking) -> dict[str, Any]:
    return {
        "considered": sum(order.listed.values()),
        "considered_by_k": order.listed,
        "estimated": order.estimated,
        "complete": order.complete,
    }


def _bar(label: str) -> Callable[[int, int], None]:
    """A progress bar that starts when it is first told how far the work is."""
    bars: list[Iterator[int]] = []

    def tell(_done: int, total: int) -> None:
        if not bars:
            bars.append(progress(range(total), total=total, label=label))
        next(bars[0], None)

    return tell

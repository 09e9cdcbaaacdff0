"""`anchor import-dft`: results of DFT codes, on the hulls, beside the potential's energies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchor.cli.common import Device, JsonFlag, Overwrite, Potential, emit, print_table, say
from anchor.errors import InputError


def import_dft(
    files: Annotated[
        list[Path], typer.Argument(help="vasprun.xml, outputs of pw.x or GPAW, or folders with them.")
    ],
    potential: Potential = "mattersim-1m",
    out: Annotated[
        Path | None,
        typer.Option(help="Write the crystals with DFT energies, too: FILE.extxyz, .json, …"),
    ] = None,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    json: JsonFlag = False,
) -> None:
    """Read DFT results back and place them on the hulls.

    They stand beside the potential's energies. A distance is the energy of the reaction from the competing
    phases, among imported results of one code and its settings. A phase that is not imported stands at the
    database's difference, marked as mixed. So import the competing phases, too: their inputs are written by
    `anchor dft inputs FIND.cif --products`.

    Example: anchor import-dft calculations
    """
    from anchor.dft.engine import Calculator
    from anchor.dft.placing import SCHEME, place
    from anchor.dft.products import Library
    from anchor.dft.results import read_result, result_files
    from anchor.dft.stability import Stability
    from anchor.formats import write
    from anchor.formats.write import check_ending
    from anchor.hull import load_hull
    from anchor.outcomes.judge import Judge
    from anchor.potentials import load_potential
    from anchor.relax.parallel import Relaxer
    from anchor.writing import check_place

    if out is not None:
        check_ending(out)
        check_place(out, overwrite=overwrite)
    results, skipped = [], []
    for file in result_files(files):
        try:
            results.append(read_result(file))
        except InputError as error:
            skipped.append({"source": str(file), "reason": error.message})
    if not results:
        raise InputError(f"none of {len(skipped)} files gave a result; {skipped[0]['reason']}")
    say(f"{len(results)} results read; loading {potential} and the hulls …", json)
    model = load_potential(potential, device=device)
    hull = load_hull(model)
    stability = Stability(hull, Library(potential, model.checkpoint_hash), Calculator(known_only=True))
    found = place(results, stability, Judge(Relaxer(model, workers=1), hull, None))
    if out is not None:
        from anchor.crystals.crystals import Crystals

        energies = [float("nan") if r.energy.energy is None else r.energy.energy for r in results]
        names = [Path(r.source).parent.name or Path(r.source).stem for r in results]
        crystals = Crystals.concatenate(r.crystal for r in results)
        write(out, crystals, names, {"energy": energies}, overwrite=overwrite)
    if json:
        emit(
            {
                "scheme": SCHEME,
                "potential": potential,
                "results": [p.to_dict() for p in found],
                "skipped": skipped,
            }
        )
        return
    print_table(
        ["formula", "code", "hull", "DFT", potential, "competing phases", "notes"],
        (
            [
                *([one.result.formula, f"{one.result.code}, {one.result.settings}"] if not i else ["", ""]),
                d.database,
                _milli(d.above),
                _milli(one.potential.get(d.database)),
                d.text,
                "; ".join([*(["mixed"] if d.mixed else []), *d.notes])
                if one.result.energy.per_atom is not None
                else one.result.energy.text,
            ]
            for one in found
            for i, d in enumerate(one.distances)
        ),
        title="meV/atom above the hulls: by the imported energies, and by the potential at the same geometry",
    )
    typer.echo(f"scheme: {SCHEME}")
    for skip in skipped:
        typer.echo(f"skipped {skip['source']}: {skip['reason']}", err=True)
    if out is not None:
        typer.echo(f"wrote {len(results)} crystals to {out}")


def _milli(value: float | None) -> str:
    return "–" if value is None else f"{1000 * value:+.1f}"

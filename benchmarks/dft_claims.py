"""What DFT says about finds: a list drawn by a rule before anything was calculated, and its table.

    python benchmarks/dft_claims.py draw        # writes dft-claims.cif; done once
    anchor verify benchmarks/dft-claims.cif --level 6 --out VERDICTS      # all six levels; needs GPAW
    python benchmarks/dft_claims.py table VERDICTS                    # writes the table into docs/dft.md

The rule: entries of the catalogue that ship on both hulls with all entries competing, cells of at most 8
atoms, all competing phases of both hulls compounds with a reference crystal or metals, no phase with U; the
cheapest of each family (stoichiometry and most electronegative element), the 24 cheapest of these.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anchor.catalogue.catalogue import Entry, load_catalogue
from anchor.chemistry.formula import parse_amounts
from anchor.crystals.crystals import Crystals
from anchor.dft.jobs import Job
from anchor.dft.rules import WITHOUT_DATA, hubbard, settings_for
from anchor.dft.stability import is_corrected
from anchor.formats.load import load
from anchor.formats.write import write
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference
from dft import into_page

CLAIMS = Path(__file__).with_name("dft-claims.cif")
LARGEST, CLAIMED = 8, 24


def drawn() -> list[tuple[float, Entry]]:
    """Estimated CPU seconds and entry, cheapest first."""
    best: dict[tuple[Any, ...], tuple[float, Entry]] = {}
    for cost, entry in affordable():
        amounts = parse_amounts(entry.formula)
        family = (tuple(sorted(amounts.values())), max(amounts, key=electronegativity))
        if family not in best or cost < best[family][0]:
            best[family] = (cost, entry)
    return sorted(best.values(), key=lambda pair: (pair[0], pair[1].formula))[:CLAIMED]


def affordable() -> Iterator[tuple[float, Entry]]:
    """Entries that the rule allows, with the estimated CPU seconds of all phases."""
    catalogue, hull, reference = load_catalogue(), load_hull("mattersim-1m"), load_reference()
    lowest = {
        formula: row
        for row, formula in sorted(
            enumerate(reference.formulas.tolist()), key=lambda pair: -reference.formation_energy[pair[0]]
        )
    }
    for entry in catalogue.select(most=0.0):
        phases = {f for m in hull.decompositions(entry.formula).values() for f in m.formulas}
        elements = parse_amounts(entry.formula).keys()
        wanting = any(f not in lowest or is_corrected(f) for f in phases)
        if (
            entry.crystal.n_atoms > LARGEST
            or wanting
            or hubbard(elements)
            or elements & {*WITHOUT_DATA, "Ac"}
        ):
            continue
        crystals = [entry.crystal, *(reference.crystals[[lowest[f]]] for f in sorted(phases))]
        settings = settings_for([entry.formula, *phases])
        yield sum(Job.of(crystal, settings).cost for crystal in crystals), entry


def electronegativity(symbol: str) -> float:
    from pymatgen.core import Element

    return float(Element(symbol).X)


def draw() -> None:
    if CLAIMS.exists():
        raise SystemExit(f"{CLAIMS} is there already: it is drawn once")
    chosen = drawn()
    for cost, entry in chosen:
        print(
            f"{entry.formula}\t{entry.above_hull:+.3f}\tlevel {entry.level}\t{cost:.0f} CPU s\t{entry.thin}"
        )
    write(
        CLAIMS,
        Crystals.concatenate([entry.crystal for _, entry in chosen]),
        ids=[entry.formula for _, entry in chosen],
    )


def table(folder: Path) -> str:
    """The verdicts of `anchor verify` on the claims, as a table."""
    lines = [
        "| find | level passed | DFT: OQMD, MP, eV/atom | the last verdict |",
        "| --- " * 4 + "|",
    ]
    counts: dict[str, int] = {}
    for formula in sorted(load([CLAIMS]).crystals.formulas):
        verdicts = {row["level"]: row for row in map(read, sorted(folder.glob(f"*-{formula}-level-*.json")))}
        passed = max((level for level, row in verdicts.items() if row["passed"]), default=0)
        last = verdicts.get(6)
        hulls = (last or {}).get("evidence", {}).get("hulls", {})
        above = [hulls.get(name, {}).get("above_ev_per_atom") for name in ("oqmd", "mp")]
        says = last["reason"] if last else verdicts[max(verdicts)]["reason"] if verdicts else "not tried"
        said = (
            {True: "stands", False: "refuted", None: "undecided"}[last["passed"]] if last else "not reached"
        )
        counts[said] = counts.get(said, 0) + 1
        numbers = ", ".join("–" if x is None else f"{x:+.3f}" for x in above) if last else "–"
        lines.append(f"| {formula} | {passed} | {numbers} | {says} |")
    head = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    return "\n".join([f"{sum(counts.values())} finds: {head}.", "", *lines])


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["draw", "table"])
    parser.add_argument("folder", type=Path, nargs="?", help="table: where the verdicts are")
    given = parser.parse_args()
    if given.what == "draw":
        draw()
    else:
        into_page("claims", table(given.folder))


if __name__ == "__main__":
    main()

"""The error of `anchor dft`: reaction energies of known compounds against OQMD's, and the potentials' errors.

    python benchmarks/dft.py run [--minutes 60]   # what is missing, cheapest first; needs GPAW
    python benchmarks/dft.py table                # the tables of docs/dft.md, and writes them there
    python benchmarks/dft.py finds [--known]      # DFT of the crystals in dft-finds/, written there as well
    python benchmarks/dft.py ship                 # energies that are known into the package
    python benchmarks/dft.py draw                 # writes the list; done once, before anything was calculated

All crystals stand at OQMD's geometries; reactions are in eV/atom of the compound.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from anchor.dft.engine import Calculator
from anchor.dft.known import QUOTAS, Reaction, crystal_row, draw
from anchor.dft.products import Library
from anchor.dft.stability import Stability
from anchor.dft.store import DONE, Store, ship
from anchor.formats import load
from anchor.hull.databases import load_calibration
from anchor.hull.energies import available, load_energies
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference
from anchor.weights import write_json

LIST = Path(__file__).with_name("dft-reactions.json")
RESULTS = Path(__file__).with_name("dft-results.json")
FINDS = Path(__file__).with_name("dft-finds")
PAGE = Path(__file__).parents[1] / "docs" / "dft.md"
POTENTIAL = "mattersim-1m"
MOST_SECONDS = 150.0
"""Estimated CPU time of competing phases of the finds on this page."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table", "finds", "ship", "draw"], nargs="?", default="table")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no reaction after so long")
    parser.add_argument(
        "--most", type=int, default=len(reactions()), help="reactions from the top of the list"
    )
    parser.add_argument("--known", action="store_true", help="finds: calculate nothing")
    given = parser.parse_args()
    if given.what == "draw":
        write_list()
    elif given.what == "run":
        run(given.minutes, given.most)
    elif given.what == "ship":
        print(ship(Store()), "energies")
    elif given.what == "finds":
        into_page("finds", finds(known=given.known))
    else:
        into_page("table", table())


def reactions() -> list[Reaction]:
    if not LIST.exists():
        return []
    rows = json.loads(LIST.read_text(encoding="utf-8"))["reactions"]
    return [Reaction.from_dict({k: v for k, v in row.items() if k != "estimated_cpu_s"}) for row in rows]


def write_list() -> None:
    if LIST.exists():
        raise SystemExit(f"{LIST} is there already: it is drawn once")
    about = "Known reactions for the error of anchor dft, drawn once, before anything was calculated."
    rows = [{**reaction.to_dict(), "estimated_cpu_s": round(cost, 1)} for reaction, cost in draw(0)]
    write_json(
        LIST, {"what": about, "command": "python benchmarks/dft.py draw", "seed": 0, "reactions": rows}
    )


def run(minutes: float, most: int) -> None:
    """Calculate reaction after reaction; each is written down when it is done."""
    reference, began = load_reference(), time.monotonic()
    calculator = Calculator(time_limit_s=7200, on_progress=lambda text: print(text, flush=True))
    for reaction in reactions()[:most]:
        if time.monotonic() - began > 60 * minutes:
            return
        if results().get(reaction.formula, {}).get("status") == DONE:
            continue
        jobs = reaction.jobs(reference)
        found = calculator(jobs)
        row: dict[str, Any] = {
            "chemistry": reaction.chemistry,
            "oqmd": reaction.oqmd,
            "settings": reaction.settings.to_dict(),
            "phases": {
                job.formula: {"status": e.text, "mesh": list(job.mesh), **_numbers(e.about)}
                for job, e in zip(jobs, found, strict=True)
            },
        }
        energies = [e.per_atom for e in found]
        if None not in energies:
            dft = reaction.energy([e for e in energies if e is not None])
            row |= {"status": DONE, "dft": round(dft, 6), "error": round(dft - reaction.oqmd, 6)}
        else:
            row["status"] = "; ".join(f"{j.formula} {e.text}" for j, e in zip(jobs, found, strict=True))
        write_json(
            RESULTS,
            {
                "what": "eV/atom of the compound; error: dft - oqmd",
                "command": "python benchmarks/dft.py run",
                "results": {**results(), reaction.formula: row},
            },
        )
        print(reaction.formula, row["status"], row.get("dft"), reaction.oqmd, flush=True)


def _numbers(about: dict[str, Any]) -> dict[str, float]:
    return {key: about[key] for key in ("cpu_seconds", "max_rss_mb", "moment_mub") if about.get(key)}


def results() -> dict[str, dict[str, Any]]:
    return json.loads(RESULTS.read_text(encoding="utf-8"))["results"] if RESULTS.exists() else {}


# Tables


def into_page(name: str, text: str) -> None:
    """Print a text, and put it between the marks of this name in docs/dft.md."""
    print(text)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    after = rest.partition(f"<!-- end of {name} -->")[2]
    marked = f"<!-- {name} -->\n{text}\n<!-- end of {name} -->"
    PAGE.write_text(before + marked + after, encoding="utf-8")


def table() -> str:
    """Errors of DFT and of every potential on the reactions that are done, by chemistry."""
    listed, found = reactions(), results()
    done = [r for r in listed if found.get(r.formula, {}).get("status") == DONE]
    tried = [r for r in listed if r.formula in found]
    lines = [f"{len(done)} of {len(listed)} reactions done, {len(tried) - len(done)} tried in vain.", ""]
    lines += _head("compound", "decomposes into (atoms)", "chemistry", "DFT meV/atom", "OQMD", "error")
    for reaction in tried:
        row = found[reaction.formula]
        parts = " + ".join(f"{amount:.3g} {formula}" for formula, _, amount in reaction.products)
        values = [row["status"], f"{1000 * reaction.oqmd:.1f}", "-"]
        if row["status"] == DONE:
            values[0], values[2] = f"{1000 * row['dft']:.1f}", f"{1000 * row['error']:+.1f}"
        lines.append(_row(reaction.formula, parts, reaction.chemistry, *values))
    errors = {"DFT (GPAW)": np.array([found[r.formula]["error"] for r in done])}
    errors |= {f"{name}, calibrated": potential_errors(name, done) for name in available()}
    lines += ["", *_head("the same reactions", "n", "mean error meV/atom", "median", "worst")]
    lines += [_row(name, *_summary(values)) for name, values in errors.items()]
    lines += ["", *_head("DFT by chemistry", "n", "mean error meV/atom", "median", "worst")]
    for name in QUOTAS:
        mask = np.array([r.chemistry == name for r in done], dtype=bool)
        lines.append(_row(f"{name} (of {QUOTAS[name]})", *_summary(errors["DFT (GPAW)"][mask])))
    return "\n".join(lines)


def finds(*, known: bool) -> str:
    """What DFT says about the crystals in dft-finds/."""
    hull = load_hull(POTENTIAL)
    library = Library(POTENTIAL, hull.identity.checkpoint_hash)
    calculator = Calculator(known_only=known, on_progress=lambda text: print(text, flush=True))
    stability = Stability(hull, library, calculator, most_seconds=MOST_SECONDS)
    lines = _head("find", "hull", "DFT meV/atom above", "competing phases (atoms)", "verdict", "notes")
    loaded = load(sorted(FINDS.glob("*.cif")))
    for name, crystal in zip(loaded.ids, loaded.crystals, strict=True):
        found = stability(crystal)
        for d in found.distances:
            above = "-" if d.above is None else f"{1000 * d.above:+.0f}"
            notes = "; ".join([*(["mixed"] if d.mixed else []), *d.notes])
            lines.append(_row(name, d.database, above, d.text, found.verdict(), notes or found.energy.text))
    return "\n".join(lines)


def _head(*names: str) -> list[str]:
    return [_row(*names), _row(*["---"] * len(names))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _summary(errors: np.ndarray) -> list[str]:
    size = 1000 * np.abs(errors[np.isfinite(errors)])
    numbers = [f"{v:.1f}" for v in (size.mean(), np.median(size), size.max())] if len(size) else ["-"] * 3
    return [str(len(size)), *numbers]


def potential_errors(name: str, done: list[Reaction]) -> np.ndarray:
    """Errors of a potential's single points with its calibration to OQMD, eV/atom."""
    reference = load_reference()
    energies = load_energies(name, reference.crystals)
    calibration = load_calibration(name, reference, energies, "oqmd")
    formation = calibration.formation_energy(reference.crystals.compositions.amounts, energies.single_point)
    found = []
    for reaction in done:
        rows = [crystal_row(reference, i) for i in (reaction.crystal, *(p[1] for p in reaction.products))]
        found.append(reaction.energy(formation[rows].tolist()) - reaction.oqmd)
    return np.array(found)


if __name__ == "__main__":
    main()

"""Searches within a user's limits: the ranking, the ranking that learns, the shipped policy; equal budgets.

    python benchmarks/limits.py FOLDER -n 96

One campaign of the preset quick for each request and source; what a folder holds already is not made again.
Counts are those of the search itself: positions relaxed, cell fixed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from anchor.config import load_config
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger

REQUESTS: dict[str, dict[str, object]] = {
    "--elements Li,Fe,P,O": {"elements": ("Li", "Fe", "P", "O")},
    "--elements Li,Fe,Mn,P,S,O": {"elements": ("Li", "Fe", "Mn", "P", "S", "O")},
    "--elements Na,K,Cl,O,S": {"elements": ("Na", "K", "Cl", "O", "S")},
    "--must-contain Na": {"must_contain": ("Na",)},
    "--k 4": {"k": (4,)},
}
SOURCES = ("screened", "adaptive", "policy")


def row(request: str, source: str, place: Path, n: int) -> dict[str, object]:
    """Counts of one campaign, run if it is not there."""
    wishes = {f"action_space.{name}": value for name, value in REQUESTS[request].items()}
    values = {"policy.source": source, "run.structures": n, "run.workers": 1, **wishes}
    began = time.process_time()
    if not (place / "ledger.db").is_file():
        Campaign.start(load_config(preset="quick", values=values).config, place).run()
    elif Ledger.open(place).n_candidates < n:  # it was stopped
        Campaign.resume(place).run()
    ledger = Ledger.open(place)
    tally = Tally().add_all(ledger.rows(TALLY_COLUMNS))
    step = ledger.step_rows()[-1]["metrics"]
    return {
        "request": request,
        "source": source,
        "proposed": tally.proposed,
        "cpu_seconds": round(time.process_time() - began, 1),
        **{name: tally.counts[name] for name in ("unique", "valid", "metastable", "msun", "sun")},
        "within_limits": step.get("formulas_within_limits"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=96)
    parser.add_argument("--source", action="append", choices=SOURCES, help="default: all of them")
    options = parser.parse_args()
    for number, request in enumerate(REQUESTS):
        for source in options.source or SOURCES:
            place = options.folder / f"{number}-{source}"
            print(json.dumps(row(request, source, place, options.n)), flush=True)


if __name__ == "__main__":
    main()

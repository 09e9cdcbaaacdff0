"""How long the page takes to answer about a campaign of 100,000 candidates.

    python benchmarks/page.py                  # 100,000 rows
    python benchmarks/page.py --rows 10000

The ledger is made of crystals of the catalogue with random energies and novelties. Each question is asked
five times; the median is what is printed, of wall time and of this process' processor time.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from page_folder import make_campaign

from anchor.outcomes.columns import ABOVE
from anchor.search.ledger import Ledger
from anchor.server.listing import Listing, found_rows, page_of_candidates, page_of_rows
from anchor.server.live import Watch
from anchor.server.pictures import Pictures

REPEATS = 5
QUESTIONS = {
    "first page": Listing(),
    "page 1,000": Listing(page=1000),
    "sorted by energy": Listing(sort="energy_above_hull_ev_per_atom"),
    "e_hull < 0.03 and nelements = 3": Listing(where="e_hull < 0.03 and nelements = 3"),
    "elements has (Na, O), newest first": Listing(
        where="elements has (Na, O)", sort="novelty", descending=True
    ),
    "all of these, page 10": Listing(where="valid and not known and e_hull < 0.1", sort="reward", page=10),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        make_campaign(Path(folder), rows, refined=500, per_step=512).close()
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        print(f"{rows} candidates, {size:.0f} MB, made in {time.process_time() - began:.0f} s")
        ledger = Ledger.open(folder)
        for name, listing in QUESTIONS.items():
            total, _ = page_of_candidates(ledger, listing)
            print(f"{name:36} {total:7} rows  {median(lambda q=listing: page_of_candidates(ledger, q))}")
        wish = Listing(where="e_hull < 0.03", sort=ABOVE)
        watch, pictures = Watch(ledger), Pictures()
        print(f"{'finds, filtered':49} {median(lambda: page_of_rows(found_rows(ledger), wish))}")
        print(f"{'counts, the first time':49} {median(watch.snapshot, repeats=1)}")
        print(f"{'counts, again':49} {median(watch.snapshot)}")
        first = median(lambda: pictures.of_campaign(Path(folder)), repeats=1)
        print(f"{'pictures, the first time':49} {first}")


def median(ask: object, repeats: int = REPEATS) -> str:
    """Median of several times, s."""
    wall, cpu = [], []
    for _ in range(repeats):
        a, b = time.perf_counter(), time.process_time()
        ask()
        wall.append(time.perf_counter() - a)
        cpu.append(time.process_time() - b)
    return f"{statistics.median(wall):7.3f} s, processor {statistics.median(cpu):7.3f} s"


if __name__ == "__main__":
    main()

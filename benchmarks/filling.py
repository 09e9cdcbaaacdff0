"""What the hulls say of one campaign's candidates: OQMD as before, both databases, both with the filling.

    python benchmarks/filling.py CAMPAIGN [--known 2000]

Nothing is relaxed: energies are those of the ledger. Known crystals are placed with their stored energies.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.hull import load_hull
from anchor.hull.energies import load_energies
from anchor.outcomes.columns import ABOVE
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.reference.reference import load_reference
from anchor.search.ledger import Ledger, decode_crystal

KINDS = ("oqmd", "unfilled", "union")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign")
    parser.add_argument("--known", type=int, default=2000, help="known stable crystals to place")
    given = parser.parse_args()
    ledger = Ledger.open(given.campaign)
    potential = ledger.config["relax"]["potential"]
    rows = list(ledger.rows((*TALLY_COLUMNS, "energy_ev", "relaxed")))
    made = [i for i, row in enumerate(rows) if row["relaxed"] is not None and row["energy_ev"] is not None]
    crystals = Crystals.concatenate(decode_crystal(rows[i]["relaxed"]) for i in made)
    energies = np.array([rows[i]["energy_ev"] for i in made])
    above, flags = {}, {}
    for kind in KINDS:
        hull = load_hull(potential, kind)
        hull.score(crystals[:1], energies[:1], checkpoint_hash=hull.identity.checkpoint_hash)
        began = time.perf_counter()
        scores = hull.score(crystals, energies, checkpoint_hash=hull.identity.checkpoint_hash)
        seconds = time.perf_counter() - began
        values: list[float | None] = [None] * len(rows)
        for i, value in zip(made, scores.energy_above_hull.tolist(), strict=True):
            values[i] = value if np.isfinite(value) else None
        tally = Tally()
        flags[kind] = [tally.add({**row, ABOVE: e}) for row, e in zip(rows, values, strict=True)]
        above[kind] = values
        counts = {name: tally.counts[name] for name in ("metastable", "stable", "msun", "sun")}
        print(f"{kind:9} {len(rows)} candidates: {counts}, scored in {seconds:.3f} s", flush=True)

    known_in = load_reference().known
    new = [i for i, row in enumerate(rows) if row["valid"] and above["union"][i] is not None]
    best: dict[str, int] = {}
    for i in sorted(new, key=lambda i: above["union"][i] or 0.0):
        if not known_in(rows[i]["formula"]):
            best.setdefault(rows[i]["formula"], i)
    filled = load_hull(potential)
    print("\nbest by the filled hull, known nowhere: eV/atom above oqmd, unfilled, filled")
    for formula, i in list(best.items())[:10]:
        distances = " ".join(f"{above[kind][i]:+.3f}" for kind in KINDS)
        mixtures = "; ".join(f"{name}: {m}" for name, m in filled.decompositions(formula).items())
        print(f"  {formula:14} {distances}  {mixtures}")
    first = [i for i, flag in enumerate(flags["oqmd"]) if flag["sun"]]
    first.sort(key=lambda i: above["oqmd"][i] or 0.0)
    print("\nbest by OQMD alone:")
    for i in first[:10]:
        print(f"  {rows[i]['formula']:14} " + " ".join(f"{above[kind][i]:+.3f}" for kind in KINDS))

    reference = load_reference()
    own = load_energies(potential, reference.crystals).lowest
    binary = reference.crystals.compositions.k > 1
    stable = np.flatnonzero((reference.stability <= 0) & np.isfinite(own) & binary)
    chosen = np.random.default_rng(0).permutation(stable)[: given.known]
    batch = reference.crystals[chosen]
    before, after = (
        hull.score(
            batch, own[chosen] * batch.counts, checkpoint_hash=hull.identity.checkpoint_hash
        ).energy_above_hull
        for hull in (load_hull(potential, "unfilled"), filled)
    )
    moved = after - before
    print(
        f"\n{len(batch)} known stable crystals: {int((moved > 1e-6).sum())} rise, p99 "
        f"{np.nanquantile(moved, 0.99):.4f}, max {np.nanmax(moved):.4f} eV/atom; above 0.05: "
        f"{int((before > 0.05).sum())} before, {int((after > 0.05).sum())} after"
    )
    for i in np.argsort(-np.nan_to_num(moved))[:8]:
        formula = batch[int(i)].formulas[0]
        mixtures = "; ".join(f"{name}: {m}" for name, m in filled.decompositions(formula).items())
        print(f"  {formula:12} {before[i]:+.3f} → {after[i]:+.3f}  {mixtures}")


if __name__ == "__main__":
    main()

"""Claims: of a campaign's ledger, or of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, nearest
from anchor.executors import Executor
from anchor.formats import load
from anchor.hull.belief import load_depths
from anchor.hull.competition import counting_hulls
from anchor.hull.references import PotentialHull, load_hull
from anchor.outcomes.columns import ABOVE, EACH, METASTABLE_BELOW, STABLE_BELOW
from anchor.outcomes.judge import Judge
from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.reference.reference import Reference, load_reference
from anchor.search.finds import competitors
from anchor.search.ledger import Ledger, decode_crystal
from anchor.verify.claims import Claim, Competition, Context, claimed_limit
from anchor.verify.loading import RELAXING, load_judge

WHICH = ("finds", "sun", "msun")
PRIORS = ("templates-all", "wyckoff", "crystalite", "omatg", "kldm")
"""Who proposes other structures: all that ship but random crystals, of which 30 find nothing."""
MOST_ATOMS = 255
"""Of a cell, as far as a ledger stores them."""


def campaign_context(
    ledger: Ledger, executor: Executor, *, which: str = "finds", judge: Judge | None = None
) -> Context:
    """Claims of a campaign and what attacks on them may use.

    Args:
        ledger: Of the campaign.
        executor: Where to work.
        which: "finds": refined ones, rediscoveries too. "sun", "msun": every stable (metastable), unique and
            novel candidate whose formula is known nowhere, as the search left it.
        judge: With the campaign's potential, if it is loaded already.
    """
    if which not in WHICH:
        raise InputError(f"'{which}' is no set of claims", nearest(which, WHICH))
    config = Config.from_ledger(ledger.config)
    if judge is None:
        judge = load_judge(config.relax.potential, executor)
    if ledger.identity["potential"]["hash"] != judge.potential.checkpoint_hash:
        raise InputError(
            f"the campaign used other weights of {judge.potential.name}", "verify with the anchor that ran it"
        )
    hull = load_hull(judge.potential)
    judge = Judge(judge.relaxer, hull, RELAXING, judge.checks)
    claims = _finds(ledger, hull, judge)
    if which != "finds":
        refined = {claim.id: claim for claim in claims}
        claims = [refined.get(claim.id, claim) for claim in _candidates(ledger, which)]
    others = competitors(ledger, tuple(counting_hulls(hull)))
    return Context(
        judge=judge,
        hull=hull,
        reference=load_reference(),
        executor=executor,
        claims=tuple(claims),
        competition=Competition(tuple(row["formula"] for row in others), tuple(row[EACH] for row in others)),
        prior_names=PRIORS,
        seed=config.run.seed,
    )


def files_context(files: Sequence[Path], executor: Executor, *, potential: str, seed: int) -> Context:
    """Claims made by the crystals of files, see `crystals_context`."""
    crystals, names = [], []
    for path in files:
        found = load(path)
        one = len(found.crystals) == 1
        names += [path.stem] if one else [f"{path.stem}-{name}" for name in found.ids]
        crystals.append(found.crystals)
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise InputError(f"two crystals are named {', '.join(sorted(repeated))}", "rename one of the files")
    return crystals_context(Crystals.concatenate(crystals), names, executor, potential=potential, seed=seed)


def crystals_context(
    crystals: Crystals, names: Sequence[str], executor: Executor, *, potential: str, seed: int
) -> Context:
    """Claims made by crystals: each is relaxed first, and claims what it reaches."""
    for name, n_atoms in zip(names, crystals.counts.tolist(), strict=True):
        if n_atoms > MOST_ATOMS:
            raise InputError(f"{name} has {n_atoms} atoms", f"at most {MOST_ATOMS} are verified")
    judge = load_judge(potential, executor)
    hull, reference = load_hull(judge.potential), load_reference()
    claims = tuple(raw_claim(n, crystal, reference) for n, crystal in zip(names, crystals, strict=True))
    return Context(judge, hull, reference, executor, claims=claims, prior_names=PRIORS, seed=seed)


def raw_claim(name: str, crystal: Crystals, reference: Reference) -> Claim:
    """A crystal that has no energy yet."""
    known = frozenset(reference.known(crystal.formulas[0]))
    return Claim(name, crystal, np.nan, {"union": np.nan}, known, refined=False)


def _finds(ledger: Ledger, hull: PotentialHull, judge: Judge) -> list[Claim]:
    rows = [*ledger.find_rows(), *ledger.find_rows(known=True)]
    if not rows:
        return []
    crystals = Crystals.concatenate(decode_crystal(row["crystal"]) for row in rows)
    energies = np.array([np.nan if row["energy_ev"] is None else row["energy_ev"] for row in rows])
    scores = hull.score(crystals, energies, checkpoint_hash=judge.potential.checkpoint_hash)
    claims = []
    for i, row in enumerate(rows):
        above = {name: float(values[i]) for name, values in scores.above.items()}
        belief = load_depths().of(row["formula"], above["union"]) if np.isfinite(above["union"]) else None
        claims.append(
            Claim(
                id=str(row["candidate"]),
                crystal=crystals[i],
                energy=float(energies[i]) / crystals[i].n_atoms,
                above=above,
                known_in=frozenset(filter(None, row["known_in"].split(","))),
                suspicious=bool(belief and belief.suspicious),
                limit=claimed_limit(above["union"]),
            )
        )
    return claims


def _candidates(ledger: Ledger, which: str) -> list[Claim]:
    tally = Tally(Config.from_ledger(ledger.config).evaluation)
    columns = (*TALLY_COLUMNS, "id", "relaxed", "energy_ev", EACH)
    rows: list[dict[str, Any]] = [
        row for row in ledger.rows(columns) if tally.add(row)[which] and not row["known_in"]
    ]
    claims = []
    for row in sorted(rows, key=lambda row: (row[ABOVE], row["id"])):
        crystal = decode_crystal(row["relaxed"])
        above = {**row[EACH], "union": row[ABOVE]}
        limit = STABLE_BELOW if which == "sun" else METASTABLE_BELOW
        energy = row["energy_ev"] / crystal.n_atoms
        claims.append(Claim(str(row["id"]), crystal, energy, above, limit=limit, refined=False))
    return claims

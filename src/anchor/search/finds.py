"""The finds of a campaign: its best new candidates, relaxed to the end, cell included.

The reward relaxes positions only and stops early: this ranks candidates, but leaves them strained. What a
user takes away is therefore relaxed once more under the same potential and judged on the same hull, then on
the hull with everything else that the campaign found, and says what speaks against it: a depth that known
compounds do not have, a chemical system that the databases do not know.

A few candidates whose formula somebody has listed before are relaxed as well: rediscoveries show that the
method works, and are no discoveries. What each came to is its standing: only what lies on the hull, is
believable and was not broken by an attack is called a find.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from anchor.config import Config, Thresholds
from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.belief import load_depths
from anchor.hull.competition import above_with_all, counting_hulls
from anchor.hull.references import PotentialHull
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, EACH, STABLE_BELOW
from anchor.outcomes.rows import each_hull
from anchor.reward.novelty import reference_novelty
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal
from anchor.search.tables import candidates

if TYPE_CHECKING:
    from anchor.search.campaign import Campaign  # imports torch, which readers of finds do not need

STANDINGS = {
    "find": "on or below the hull, formula known nowhere",
    "near": "near the hull, formula known nowhere",
    "far": "far above the hull: merely the best of the rest",
    "deep": "deeper below the hull than 99 % of known compounds of its kind: a hole or an error, rather",
    "failed": "broken by a check",
    "known": "the formula is known: a rediscovery",
}
"""What a candidate is, in the order of showing."""
NEW = ("find", "near", "far", "failed")
"""Standings of believable candidates whose formula is known nowhere."""
FROM_JUDGE = (
    "relaxation", "energy_ev", "formation_energy_ev_per_atom", ABOVE, "bonds_ok", "valid",
)  # fmt: skip
"""Columns of a find that the judge fills."""
VERIFIED = 3
"""Level that a search's best finds are attacked up to, and from which on a find counts as verified: hulls and
lists, other structures of the composition, other potentials (`anchor.verify`)."""
NOT_ATTACKED = 0.5
"""Rank of a find that no level was tried on: behind what passed one, before what failed the first."""
BLOCK = 256
"""Candidates that are refined together: neighbours in the ledger."""
MADE = {"icsd", "cod", "mp", "mp-old"}
"""Sources that make a formula a rediscovery: OQMD's hypothetical compounds do not, and what is among the
reference crystals was shown to the prior."""


@dataclass(frozen=True)
class Finds:
    """Refined candidates of a campaign as they are shown.

    Attributes:
        by_standing: Rows of each of `STANDINGS`, by the level of attacks that they passed, then lowest energy
            above the hull first.
    """

    by_standing: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, ledger: Ledger) -> Finds:
        verdicts, limits = ledger.verdict_rows(), Config.from_ledger(ledger.config).evaluation
        rows = [*ledger.find_rows(), *ledger.find_rows(known=True)]
        return cls.of(verified(rows, verdicts), limits)

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]], limits: Thresholds) -> Finds:
        """Rows as `verified` gives them, told apart: `what` is each one's standing."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in STANDINGS}
        for row in rows:
            what = standing(row, limits)
            found[what].append({**row, "what": what})
        return cls(found)

    @property
    def finds(self) -> list[dict[str, Any]]:
        """New, on the hull, believable, not broken."""
        return self.by_standing["find"]

    @property
    def new(self) -> list[dict[str, Any]]:
        """All whose formula is known nowhere, near and far ones and broken ones, too, best first."""
        return sorted((row for name in NEW for row in self.by_standing[name]), key=_rank)

    def groups(self) -> dict[str, list[dict[str, Any]]]:
        """By what each is, in the order of showing; no empty ones."""
        return {name: rows for name, rows in self.by_standing.items() if rows}

    def counts(self) -> dict[str, int]:
        """How many there are of each, and how many finds hold against all else that the campaign found."""
        attacked = [row for row in self.new if was_attacked(row)]
        return {
            "finds": len(self.finds),
            "on_hull_with_finds": sum(on_hull(row) for row in self.finds),
            "in_thin_systems": sum(bool(row["thin"]) for row in self.finds),
            "attacked": len(attacked),
            "verified": sum((row["level"] or 0) >= VERIFIED for row in attacked),
            **{name: len(rows) for name, rows in self.by_standing.items() if name != "find"},
        }


def standing(row: Mapping[str, Any], limits: Thresholds) -> str:
    """What a row of `verified` is, one of `STANDINGS`."""
    if row["known_in"]:
        return "known"
    if row["suspicious"]:
        return "deep"
    if any(verdict["passed"] is False for verdict in row["verdicts"]):
        return "failed"
    above = row[ABOVE]
    if above is None or above > limits.metastable_below:
        return "far"
    return "find" if above <= limits.stable_below else "near"


def was_attacked(row: dict[str, Any]) -> bool:
    """Whether a find was attacked for more than a look at hulls and lists, or failed that."""
    return row["level"] is not None and (row["level"] != 1 or bool(row["why"]))


def verified(rows: Sequence[dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Finds with what attacks on them said, best first.

    Adds `level`, the highest that each passed (0: it failed the first, None: it was not attacked), `why` it
    failed the next ('': not tried), `survived`, what the last level that it passed said, and `verdicts`, all
    that were given on it. A lower crystal that an attack found takes the find's place, with its columns.
    """
    given: dict[int, list[dict[str, Any]]] = {}
    for verdict in verdicts:
        given.setdefault(verdict["candidate"], []).append(verdict)
    found = []
    for row in rows:
        new = {**row, "level": None, "why": "", "survived": ""}
        mine = given.get(row["candidate"], [])
        if mine:
            origin = decode_crystal(row["crystal"]).hash
            mine = [verdict for verdict in mine if verdict["origin"] == origin]
        new["verdicts"] = mine
        for verdict in mine:  # in the order of levels
            if not verdict["passed"]:
                new |= {"level": new["level"] or 0, "why": verdict["reason"]}
                break
            new |= {"level": verdict["level"], "survived": verdict["reason"]}
            if verdict["crystal"] is not None:
                crystal = decode_crystal(verdict["crystal"])
                changed = {name: value for name, value in verdict["replaced"].items() if name in row}
                new |= {**changed, "crystal": verdict["crystal"], "n_atoms": crystal.n_atoms}
        found.append(new)
    return sorted(found, key=_rank)


def _rank(row: dict[str, Any]) -> tuple[float, float, int]:
    """Higher levels first, what was not attacked before what failed at once; then the energy."""
    level = NOT_ATTACKED if row["level"] is None else row["level"]
    return (-level, np.inf if row[ABOVE] is None else row[ABOVE], row["candidate"])


def on_hull(row: dict[str, Any]) -> bool:
    """Whether a find is on the hull with all other finds of the campaign on it."""
    above = row[ABOVE_WITH_FINDS]
    return above is not None and above <= STABLE_BELOW


def about(row: dict[str, Any]) -> str:
    """What must be known about a find, for people."""
    notes = []
    if row["why"] and not row["known_in"]:
        notes.append(f"failed level {row['level'] + 1}: {row['why']}")
    elif row["suspicious"]:
        notes.append(f"deeper than {row['depth_percentile']:.1f} % of known compounds of its kind")
    if row["thin"]:
        notes.append(f"thin: {row['thin']}")
    if row["holes"]:
        notes.append(f"holes: {row['holes']}")
    if row["known_in"]:
        agrees = {None: "", True: ", space group agrees", False: ", another space group"}
        notes.append(f"known in {row['known_in']}{agrees[row['space_group_known']]}")
    return "; ".join(notes)


def choose(campaign: Campaign, most: int, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The candidates worth refining: valid, formula known nowhere, lowest E_hull, one per formula."""
    best = _best(campaign, candidates.c.known_in == "")
    return [row for row in best if row["formula"] not in without][:most]


def choose_known(campaign: Campaign, most: int) -> list[dict[str, Any]]:
    """The best candidates whose formula a list of `MADE` has and the reference crystals have not."""
    rows = _best(campaign, candidates.c.known_in != "")
    sources = [set(row["known_in"].split(",")) for row in rows]
    return [r for r, known in zip(rows, sources, strict=True) if known & MADE and "reference" not in known][
        :most
    ]


def _best(campaign: Campaign, which: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    where = candidates.c.valid.is_(True) & candidates.c[ABOVE].is_not(None) & which
    rows = sorted(
        campaign.ledger.rows(["id", "formula", "relaxed", "known_in", ABOVE], where=where),
        key=lambda r: (r[ABOVE], r["id"]),
    )
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        best.setdefault(row["formula"], row)
    return list(best.values())


def refine(
    campaign: Campaign,
    most: int = 20,
    *,
    without: Collection[str] = (),
    max_steps: int = 400,
    on_progress: Callable[[int, int], object] = lambda _done, _of: None,
) -> Finds:
    """Relax the best candidates with the cell free, judge them again and store them.

    Candidates of one block of the ledger are relaxed together and stored at once. A block whose finds are
    there already is not relaxed again: a long refinement that was stopped goes on, with the same bits.

    Args:
        campaign: Whose candidates.
        most: New formulas; rediscoveries come on top, up to a quarter of this.
        without: Formulas that are left out: a catalogue has them.
        max_steps: Of a relaxation.
        on_progress: Told how many are done, and of how many.
    """
    chosen = [*choose(campaign, most, without), *choose_known(campaign, -(-most // 4))]
    blocks: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(chosen, key=lambda row: row["id"]):
        blocks.setdefault(row["id"] // BLOCK, []).append(row)
    ledger, done = campaign.ledger, 0
    made = _already_made(campaign)
    for block, rows in blocks.items():
        if made.get(block) != {row["id"] for row in rows}:
            ledger.store_finds(_refined(campaign, rows, max_steps), _span(block))
        done += len(rows)
        on_progress(done, len(chosen))
    for block in made.keys() - blocks.keys():
        ledger.store_finds([], _span(block))
    stored = [*ledger.find_rows(), *ledger.find_rows(known=True)]
    above = _with_finds(campaign, [row["formula"] for row in stored], stored)
    ledger.place_finds({row["candidate"]: e for row, e in zip(stored, above, strict=True)})
    return Finds.read(ledger)


def _span(block: int) -> range:
    """Candidates of a block."""
    return range(block * BLOCK, (block + 1) * BLOCK)


def _already_made(campaign: Campaign) -> dict[int, set[int]]:
    """Refined candidates by block; none if potential or hull are no longer those the campaign began with."""
    then, now = campaign.ledger.identity, campaign.environment.identity()
    if any(then[part] != now[part] for part in ("potential", "hull")):
        return {}
    made: dict[int, set[int]] = {}
    for candidate in campaign.ledger.refined():
        made.setdefault(candidate // BLOCK, set()).add(candidate)
    return made


def _refined(campaign: Campaign, chosen: Sequence[dict[str, Any]], max_steps: int) -> list[dict[str, Any]]:
    """Candidates relaxed with the cell free and judged, as rows of finds."""
    judge = campaign.environment.judge
    assert judge.relaxing is not None, "a campaign relaxes"
    # Free to leave the symmetry that the search may have kept.
    relaxing = replace(judge.relaxing, cell=True, max_steps=max_steps, symmetry=False)
    judge = replace(judge, relaxing=relaxing)
    (relaxed,) = judge.relaxed([Crystals.concatenate(decode_crystal(row["relaxed"]) for row in chosen)])
    table, embeddings = campaign.environment.checks(judge.placed(relaxed))
    scorer = campaign.environment.scorer
    novelty = reference_novelty(
        [row["formula"] for row in chosen], embeddings, scorer.index, k_nn=scorer.novelty.k_nn
    )
    rows = []
    for row, found, hulls, crystal, score in zip(
        chosen, table.rows(FROM_JUDGE), each_hull(table), table.crystals, novelty, strict=True
    ):
        symbol, number = space_group(crystal)
        rows.append(
            {
                "candidate": row["id"],
                "crystal": encode_crystal(crystal),
                "spacegroup": symbol,
                "spacegroup_number": number,
                **found,
                EACH: hulls,
                "novelty_reference": score.value,
                **_trust(campaign, row["formula"], found[ABOVE], number),
            }
        )
    return rows


def _trust(campaign: Campaign, formula: str, above: float | None, number: int) -> dict[str, Any]:
    """What speaks for and against a find."""
    belief = None if above is None else load_depths().of(formula, above)
    listed = campaign.environment.reference.listed.space_groups(formula)
    return {
        "depth_percentile": belief and belief.percentile,
        "suspicious": belief and belief.suspicious,
        "space_group_known": number in listed if listed else None,
    }


def _with_finds(
    campaign: Campaign, formulas: Sequence[str], rows: Sequence[dict[str, Any]]
) -> list[float | None]:
    """Energy above the hull on which all finds and all valid candidates of the ledger lie too, eV/atom.

    Candidates above the hull change nothing; those below it stand where the reward's short relaxation left
    them, a little too high. Deep ones that nobody believes compete as well: what is on the hull has beaten
    everything.
    """
    hull = campaign.environment.hull
    assert isinstance(hull, PotentialHull | AlexMPHull), "there are no other hulls to search on"
    others = competitors(campaign.ledger, tuple(counting_hulls(hull)))
    mine = [row[EACH] for row in rows]
    theirs = [*formulas, *(row["formula"] for row in others)]
    return above_with_all(hull, formulas, mine, theirs, [*mine, *(row[EACH] for row in others)])


def competitors(ledger: Ledger, hulls: Sequence[str]) -> list[dict[str, Any]]:
    """Valid candidates of a campaign that lie below one of the hulls: formula and energies above each."""
    where = candidates.c.valid.is_(True) & candidates.c[ABOVE].is_not(None)
    rows = ledger.rows(["formula", EACH], where=where)
    return [row for row in rows if any((row[EACH].get(name) or 0.0) < 0 for name in hulls)]

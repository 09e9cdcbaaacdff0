"""Which structures of a campaign a prior is trained on, and which compositions it is tested with.

As in the paper (app:csp-finetune): what failed the gate and duplicates out, then a uniform draw without
replacement, as large as the training split, with no threshold on stability or novelty and no window over
steps. The ledger holds the cells as generated and as relaxed, so no composition has to be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.matching.uniqueness import first_structures
from anchor.models.data import MAX_ATOMS, held_out_formulas, reference_split
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW
from anchor.random import generator
from anchor.reference.reference import load_reference
from anchor.search.finds import VERIFIED, Finds
from anchor.search.ledger import Ledger, decode_crystal
from anchor.search.tables import candidates

Kind = Literal["all", "low", "verified"]
COLUMNS = ("id", "formula", "generated", "relaxed", ABOVE)


@dataclass(frozen=True)
class Rules:
    """What a corpus is made of.

    Attributes:
        kind: all (the paper); low: not higher above the hull than `below`; verified: finds that attacks up to
            other potentials did not refute, as they were relaxed last.
        held_out: Formulas that are kept for the evaluation.
        below: eV/atom, of `low`.
        size: Largest number of structures; None: as many as the training split has.
        seed: Of both draws.
    """

    kind: Kind = "all"
    held_out: int = 300
    below: float = METASTABLE_BELOW
    size: int | None = None
    seed: int = 0


USUAL = Rules()


@dataclass(frozen=True, eq=False)
class Corpus:
    """Structures to train on, and those kept back.

    Attributes:
        relaxed, generated: The same candidates, as relaxed and as made; verified finds have no latter.  # n
        held_out: One relaxed structure of each formula of the evaluation.
        counts: How many candidates were left after each rule, in order.
        note: Where the corpus is smaller than it should be, in words.
    """

    relaxed: Crystals
    generated: Crystals
    held_out: Crystals
    counts: dict[str, int]
    note: str = ""


def build_corpus(ledgers: Sequence[Ledger], rules: Rules, *, held_out: Sequence[str] | None = None) -> Corpus:
    """The corpus of campaigns: a pure function of what their ledgers hold, and the rules.

    Args:
        ledgers: In order; of two equal structures the first counts.
        rules: See there.
        held_out: Formulas of an earlier evaluation instead of new ones, so that turns are compared on them.
    """
    counts = {"logged": sum(ledger.n_candidates for ledger in ledgers)}
    rows = [row for ledger in ledgers for row in ledger.rows(COLUMNS, where=candidates.c.valid.is_(True))]
    counts["valid"] = len(rows)
    rows = [row for row in rows if row["relaxed"][0] <= MAX_ATOMS]  # the first byte is the number of atoms
    counts["of at most 20 atoms"] = len(rows)
    relaxed = _decoded(rows, "relaxed")
    rows = _kept(rows, first_structures(relaxed) == np.arange(len(rows)))
    counts["without duplicates"] = len(rows)
    rows = _kept(rows, ~_known(_decoded(rows, "relaxed")))
    counts["not in the reference"] = len(rows)
    if held_out is None:
        held_out = _draw_formulas(sorted({row["formula"] for row in rows}), rules)
    tested, forbidden = _one_of_each(rows, held_out), set(held_out) | held_out_formulas()
    rows = [row for row in rows if row["formula"] not in forbidden]
    counts["without formulas of any test"] = len(rows)
    if rules.kind == "low":
        rows = [row for row in rows if row[ABOVE] is not None and row[ABOVE] <= rules.below]
        counts[f"at most {rules.below:g} eV/atom above the hull"] = len(rows)
    elif rules.kind == "verified":
        rows = [row for row in _verified(ledgers) if row["formula"] not in forbidden]
        counts["verified finds"] = len(rows)
        rows = _kept(rows, first_structures(_decoded(rows, "relaxed")) == np.arange(len(rows)))
    if not rows:
        raise InputError(
            f"nothing of the campaign is left to train on ({_in_words(counts)})",
            "search longer, verify its finds first (anchor verify), or take another --corpus",
        )
    wanted = rules.size or len(reference_split("train"))
    note = ""
    if len(rows) > wanted:
        chosen = generator(rules.seed, "distill corpus").choice(len(rows), size=wanted, replace=False)
        rows = [rows[i] for i in np.sort(chosen)]
    elif len(rows) < wanted:
        note = f"all {len(rows)} structures that there are, fewer than the {wanted} asked for"
    counts["drawn"] = len(rows)
    generated = Crystals.empty() if rules.kind == "verified" else _decoded(rows, "generated")
    return Corpus(_decoded(rows, "relaxed"), generated, tested, counts, note)


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _decoded(rows: Iterable[dict[str, Any]], column: str) -> Crystals:
    return Crystals.concatenate(decode_crystal(row[column]) for row in rows)


def _kept(rows: Sequence[dict[str, Any]], keep: NDArray[np.bool_]) -> list[dict[str, Any]]:
    return [row for row, wanted in zip(rows, keep.tolist(), strict=True) if wanted]


def _known(crystals: Crystals) -> NDArray[np.bool_]:
    """Which crystals the reference has already; formulas decide which pairs are compared.  # [n]"""
    reference = load_reference()
    theirs = np.flatnonzero(np.isin(reference.formulas, np.unique(crystals.formulas)))
    both = Crystals.concatenate([reference.crystals[theirs], crystals])
    return first_structures(both)[len(theirs) :] < len(theirs)


def _draw_formulas(formulas: Sequence[str], rules: Rules) -> list[str]:
    """The formulas of the evaluation, at most half of all.

    Those of the reference's own test splits are among them: no corpus has them either.
    """
    if 2 * rules.held_out > len(formulas):
        raise InputError(
            f"{rules.held_out} held-out compositions of {len(formulas)} leave too little to train on",
            f"ask for at most {len(formulas) // 2} (--held-out), or search longer",
        )
    chosen = generator(rules.seed, "distill held out").choice(
        len(formulas), size=rules.held_out, replace=False
    )
    return [formulas[i] for i in np.sort(chosen)]


def _one_of_each(rows: Sequence[dict[str, Any]], formulas: Sequence[str]) -> Crystals:
    """The first structure of each formula that there is, by formula."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["formula"], row)
    return _decoded((first[formula] for formula in formulas if formula in first), "relaxed")


def _verified(ledgers: Sequence[Ledger]) -> list[dict[str, Any]]:
    """Finds that passed the attacks, as their last relaxation left them."""
    found = [row for ledger in ledgers for row in Finds.read(ledger).new]
    good = [row for row in found if (row["level"] or 0) >= VERIFIED]
    return [{**row, "relaxed": row["crystal"]} for row in good if row["crystal"][0] <= MAX_ATOMS]

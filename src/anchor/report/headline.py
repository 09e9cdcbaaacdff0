"""What a campaign found, in plain words: never more than was measured, and what to try after nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anchor.config import Config
from anchor.hull.databases import LABELS
from anchor.report.entries import OTHER_POTENTIALS, Entries
from anchor.report.summary import SCREENED

WORDS = ("no", "one", "two", "three", "four", "five", "six")
DFT = 6
PASSED = {
    1: "hold against hulls, lists and the other finds",
    2: "against other structures of their composition",
    OTHER_POTENTIALS: "against other potentials",
    4: "against competitors that were made",
    5: "have no imaginary phonon left",
    DFT: "hold in DFT",
}
"""What it means to have passed a level, after a number."""
FEW_STRUCTURES = 500
"""A search of fewer is short: more of them is the first thing to try."""
BOTH = ("union", "strict", "unfilled")
"""Kinds of hull that compare with every database."""


@dataclass(frozen=True)
class Headline:
    """Words over a report.

    Attributes:
        title: One line.
        sentences: What stands behind it, and what does not.
        advice: What to try; empty where there are finds.
    """

    title: str
    sentences: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def headline(entries: Entries, config: Config, proposed: int) -> Headline:
    """Words of a campaign that has proposed so many compositions."""
    finds, near = entries.of("find"), entries.counts["near"]
    hulls = "both hulls" if config.hull.kind in BOTH else "the hull"
    if not proposed:
        return Headline("Nothing has been tried yet", ["The search has not finished its first step."])
    if not finds:
        return _nothing(entries, config, proposed, near)
    title = f"{_crystals(len(finds))} on {hulls}"
    confirmed = [entry for entry in finds if (entry.get("level") or 0) >= OTHER_POTENTIALS]
    if confirmed:
        title += f", {len(confirmed)} confirmed by {_agreement(confirmed)}"
    sentences = [
        f"{_n(proposed, 'composition')} tried. {_crystals(len(finds)).capitalize()} whose formula no list "
        f"has {_verb(finds, 'lies', 'lie')} on or below {_hull_names(config)}, by the energies of "
        f"{config.relax.potential}."
    ]
    sentences += _one_database(finds) if config.hull.kind in BOTH else []
    sentences += [_how_far(finds), *_beaten(finds), *_levels(entries)]
    if near:
        sentences.append(
            f"{near:,} more {'lies' if near == 1 else 'lie'} within {config.evaluation.metastable_below:g} "
            "eV/atom: near, not finds."
        )
    refused = [
        f"{count} {words}"
        for count, words in (
            (entries.counts["failed"], "broken by a check"),
            (entries.counts["deep"], "too deep to believe"),
            (entries.counts["known"], "known already"),
        )
        if count
    ]
    if refused:
        sentences.append(f"Told apart from them: {', '.join(refused)}.")
    return Headline(title, sentences)


def _nothing(entries: Entries, config: Config, proposed: int, near: int) -> Headline:
    """A search without finds says so."""
    limit = f"{config.evaluation.metastable_below:g} eV/atom"
    title = f"No new crystal on the hull; {near} within {limit}" if near else "No find"
    sentences = [f"{_n(proposed, 'composition')} tried, and none gave a new crystal on the hull."]
    open_ones = [*entries.of("near"), *entries.of("far")]
    if open_ones:
        best = min(open_ones, key=lambda entry: entry.get("above", float("inf")))
        if "above" in best:
            words = "near it, and may be made all the same" if near else "merely the best of this search"
            sentences.append(f"Closest is {best['formula']}, {best['above']:+.3f} eV/atom above it: {words}.")
    else:
        sentences.append("No new formula was relaxed and passed the gate at all.")
    for name, words in (("deep", "too deep to believe"), ("failed", "broken by a check")):
        if entries.counts[name]:
            sentences.append(f"{_crystals(entries.counts[name]).capitalize()} {words}: listed apart.")
    return Headline(title, sentences, _advice(config, proposed))


def _advice(config: Config, proposed: int) -> list[str]:
    """What to try after a search without finds, the most promising first."""
    limits = config.action_space
    tried = []
    if config.policy.source not in SCREENED:
        tried.append(
            "Let the ranking of all formulas propose: anchor search --source screened. It finds more in a "
            "given time than an untrained policy."
        )
    if proposed < FEW_STRUCTURES:
        tried.append(f"More structures: anchor resume FOLDER -n {max(FEW_STRUCTURES, 4 * proposed)}.")
    else:
        tried.append(f"More structures: anchor resume FOLDER -n {2 * proposed}.")
    if limits.elements or limits.must_contain or limits.exclude or limits.max_counts or limits.min_counts:
        tried.append(
            "Wider limits: more --elements, fewer in --must-contain, no --counts. In a well-studied system "
            "the stable compounds are known."
        )
    if len(limits.k) == 1:
        tried.append("Other numbers of elements: --k 2,3,4.")
    tried.append(
        "Look before you search: anchor screen ranks formulas within your limits by a free estimate, in "
        "seconds."
    )
    return tried


def _hull_names(config: Config) -> str:
    if config.hull.kind in BOTH:
        return "both DFT hulls (OQMD's and the Materials Project's, with the potential's own phases)"
    return f"the hull ({config.hull.kind})"


def _one_database(finds: Sequence[dict[str, Any]]) -> list[str]:
    """Finds that only one of the databases can judge."""
    placed = [entry["above_each"] for entry in finds if entry.get("above_each")]
    alone = [each for each in placed if any(each.get(name) is None for name in LABELS)]
    if not alone:
        return []
    return [f"Of {_verb(alone, 'one', str(len(alone)))} only one of the databases knows all elements."]


def _how_far(finds: Sequence[dict[str, Any]]) -> str:
    """How well they were relaxed."""
    refined = sum(entry["refined"] for entry in finds)
    if refined == len(finds):
        return "All of them were relaxed with the cell free." if len(finds) > 1 else "Its cell was relaxed."
    rest = len(finds) - refined
    return (
        f"{refined:,} were relaxed with the cell free; the other {rest:,} have only had their positions "
        "relaxed, as the search does it, and no check."
    )


def _beaten(finds: Sequence[dict[str, Any]]) -> list[str]:
    """Finds that another one puts above the hull."""
    asked = [entry for entry in finds if "above_with_finds" in entry]
    beaten = sum(entry["above_with_finds"] > 0 for entry in asked)
    return [f"{beaten} of {len(asked)} lie above the hull once all finds compete."] if beaten else []


def _levels(entries: Entries) -> list[str]:
    """How far checks went, of how many that were tried; the last sentence says what nobody has done."""
    levels = [entry.get("level") or 0 for entry in entries.of("find")]
    if not any(level >= 1 for level in levels):
        return ["None of them has been checked any further: anchor verify FOLDER."]
    said = []
    for level, words in PASSED.items():
        verdicts = [v for e in entries.shown for v in e.get("verdicts", ()) if v["level"] == level]
        if verdicts:
            passed = sum(bool(v["passed"]) for v in verdicts)
            said.append(f"{passed:,} of {len(verdicts):,} tried {words} ({level})")
    computed = [] if any(level >= DFT for level in levels) else ["None has been computed with DFT."]
    return ["Checks, by level: " + "; ".join(said) + ".", *computed]


def _agreement(confirmed: Sequence[dict[str, Any]]) -> str:
    """By how many other potentials, as far as verdicts tell: the fewest counts."""
    fewest = min((entry["agree"][0] for entry in confirmed if entry.get("agree")), default=0)
    if not fewest:
        return "other potentials"
    counts = Counter(entry["agree"][0] for entry in confirmed if entry.get("agree"))
    least = "at least " if len(counts) > 1 else ""
    number = WORDS[fewest] if fewest < len(WORDS) else str(fewest)
    return f"{least}{number} other potential{'s' if fewest > 1 else ''}"


def _crystals(n: int) -> str:
    return f"{n:,} new crystal{'' if n == 1 else 's'}"


def _n(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _verb(of: Sequence[Any], one: str, many: str) -> str:
    return one if len(of) == 1 else many

"""Level 1: what is known already. No crystal is relaxed.

Both DFT hulls with the phases that the potential filled in; the other finds of the campaign; lists of known
formulas; depths of known compounds of its kind; merit of its own (what the potential's wrong elements lend a
compound does not count); and molecules where an ion belongs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchor.chemistry.formula import parse_amounts
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.crystals.symmetry import space_group
from anchor.hull.belief import Belief, load_depths
from anchor.hull.competition import above_with_all
from anchor.hull.databases import LABELS
from anchor.hull.holes import load_knowledge
from anchor.hull.merit import own_merit, strict_above
from anchor.hull.ytterbium import misplaced_ytterbium
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.molecules import NEUTRAL, hydrides

LISTS = {
    "mp": "the Materials Project", "mp-old": "an older Materials Project", "oqmd": "OQMD", "icsd": "ICSD",
    "cod": "COD", "reference": "the reference crystals",
}  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What is known about one claim without a relaxation.

    Attributes:
        with_finds: Energy above the hull on which the campaign's other finds lie too, eV/atom.
        strict: Energy above the hull of each database with the potential's own elements, eV/atom.
        merit: Whether it is low without what those lend it.
        belief: Whether known compounds of its kind lie as deep; None without an energy.
        bonds_ok: Whether no bond is shorter than 80 % of the shortest known one of its kind.
        symbol: Space group.
        number: Of the space group.
        listed: Whether a list has the formula in this space group; None: no list tells.
        hydrides: Centres of XH4 groups.
    """

    with_finds: float | None
    strict: Mapping[str, float]
    merit: bool
    belief: Belief | None
    bonds_ok: bool
    symbol: str
    number: int
    listed: bool | None
    hydrides: Sequence[str]


class Oracle:
    """Hulls, lists and the campaign's other finds."""

    number, name, chunk = 1, "oracle", 1000

    def settings(self, context: Context) -> dict[str, Any]:
        """The finds that compete are part of what a verdict depends on."""
        others = context.competition
        below = [[claim.formula, _rounded(claim.above)] for claim in context.claims]
        below += [[f, _rounded(above)] for f, above in zip(others.formulas, others.above, strict=True)]
        text = json.dumps(sorted(below, key=str))
        return {"competition": hashlib.sha256(text.encode()).hexdigest()}

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        return oracle(claims, context)


def oracle(claims: Sequence[Claim], context: Context, *, level: int = 1) -> list[Verdict]:
    """Verdicts on claims as they stand; `level` is the one that asks."""
    return [
        _verdict(claim, facts, context, level)
        for claim, facts in zip(claims, gather(claims, context), strict=True)
    ]


def gather(claims: Sequence[Claim], context: Context) -> list[Facts]:
    """What is known about each claim, all of them at once."""
    if not claims:
        return []
    crystals = Crystals.concatenate([claim.crystal for claim in claims])
    energy = np.array([claim.energy for claim in claims])
    amounts = crystals.compositions.amounts
    names = tuple(context.hull.databases)
    above = {name: np.array([claim.above.get(name, np.nan) for claim in claims]) for name in names}
    strict = strict_above(context.hull.databases, context.strict, amounts, energy)
    merit = own_merit(above, strict)
    with_finds = above_with_all(
        context.hull,
        [claim.formula for claim in claims],
        [claim.above for claim in claims],
        [*(claim.formula for claim in context.claims), *context.competition.formulas],
        [*(claim.above for claim in context.claims), *context.competition.above],
    )
    bonds = bonds_ok(crystals, context)
    found = []
    for i, claim in enumerate(claims):
        symbol, number = space_group(claim.crystal)
        listed = context.reference.listed.space_groups(claim.formula)
        scored = np.isfinite(claim.energy) and np.isfinite(claim.above_hull)
        found.append(
            Facts(
                with_finds=with_finds[i],
                strict={name: float(values[i]) for name, values in strict.items()},
                merit=bool(merit[i]),
                belief=load_depths().of(claim.formula, claim.above_hull) if scored else None,
                bonds_ok=bonds[i],
                symbol=symbol,
                number=number,
                listed=number in listed if listed else None,
                hydrides=hydrides(claim.crystal),
            )
        )
    return found


def bonds_ok(crystals: Crystals, context: Context) -> list[bool]:
    """Whether no bond is shorter than 80 % of the shortest known one of its kind.  # n

    Charges are the search's gate and no attack: half of the known intermetallics would fail it.
    """
    if context.judge.checks is None:
        return [True] * len(crystals)
    contacts = minimum_image_distances(crystals, self_images=True)
    verdicts = context.judge.checks.paper.verdicts(crystals, contacts)
    return [bool(ok) for ok in verdicts.columns["bonds_ok"]]


def _verdict(claim: Claim, facts: Facts, context: Context, level: int) -> Verdict:
    objection = _objection(claim, facts)
    return Verdict(
        claim=claim.id,
        level=level,
        passed=not objection,
        reason=objection or _survived(claim, facts),
        evidence=_evidence(claim, facts, context),
    )


def _objection(claim: Claim, facts: Facts) -> str:
    """The first thing that speaks against a claim; '' if nothing does."""
    if facts.belief is None:
        return "no energy above the hull"
    if claim.known_in:
        names = ", ".join(LISTS.get(name, name) for name in sorted(claim.known_in))
        agrees = {None: "", True: ", in this space group", False: ", in another space group"}[facts.listed]
        return f"a rediscovery: the formula is known to {names}{agrees}"
    if claim.above_hull > claim.limit:
        return f"{_ev(claim.above_hull)} above the hull of known phases"
    if not facts.bonds_ok:
        return "a bond shorter than any known one of its kind"
    if facts.belief.suspicious:
        return (
            f"{_ev(-claim.above_hull)} below the hull, deeper than {facts.belief.percentile:.1f} % of known "
            f"compounds of its kind ({facts.belief.kind})"
        )
    if facts.with_finds is not None and facts.with_finds > claim.limit:
        return f"{_ev(facts.with_finds)} above the hull with the campaign's other finds on it"
    if not facts.merit:
        name = max(claim_credit := _credit(claim, facts), key=claim_credit.__getitem__)
        return (
            f"low because the potential's elements are: with them where it has them, it lies at "
            f"{_ev(facts.strict[name], sign=True)} instead of {_ev(claim.above[name], sign=True)} "
            f"({LABELS[name]})"
        )
    neutral = [symbol for symbol in facts.hydrides if symbol in NEUTRAL]
    if neutral:
        return f"holds {NEUTRAL[neutral[0]]} ({neutral[0]}H4) where an ion belongs"
    return misplaced_ytterbium(claim.formula)


def _survived(claim: Claim, facts: Facts) -> str:
    place = f"{_ev(abs(claim.above_hull))} {'below' if claim.above_hull <= 0 else 'above'} the hull"
    rare = f"; holds {facts.hydrides[0]}H4, a rare cation" if facts.hydrides else ""
    return f"{place} of known phases, and the formula is in no list{rare}"


def _credit(claim: Claim, facts: Facts) -> dict[str, float]:
    """What elements lend it on each hull, eV/atom."""
    return {name: value - claim.above[name] for name, value in facts.strict.items() if name in claim.above}


def _evidence(claim: Claim, facts: Facts, context: Context) -> dict[str, Any]:
    elements = list(parse_amounts(claim.formula))
    system = load_knowledge().of(elements)
    return {
        "above_ev_per_atom": _rounded(claim.above),
        "with_finds_ev_per_atom": None if facts.with_finds is None else round(facts.with_finds, 4),
        "with_own_elements_ev_per_atom": _rounded(facts.strict),
        "decomposition": {
            name: str(mixture) for name, mixture in context.hull.decompositions(claim.formula).items()
        },
        "depth_percentile": facts.belief and facts.belief.percentile,
        "suspicious": facts.belief and facts.belief.suspicious,
        "space_group": facts.symbol,
        "space_group_number": facts.number,
        "known_in": sorted(claim.known_in),
        "space_group_known": facts.listed,
        "system": str(system),
        "hydrides": list(facts.hydrides),
    }


def _rounded(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {
        name: None if value is None or not np.isfinite(value) else round(float(value), 4)
        for name, value in sorted(values.items())
    }


def _ev(value: float, *, sign: bool = False) -> str:
    return f"{value:+.3f} eV/atom" if sign else f"{value:.3f} eV/atom"

"""Evidence cards: all that a claim went through on a dozen lines, for people who decide what to make."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from anchor.hull.databases import LABELS
from anchor.verify.run import Record

WIDTH = 80


def card(record: Record) -> str:
    """One claim: where it lies on each hull and against what, then a line per attack."""
    claim = record.now
    first = next((verdict.evidence for verdict in record.verdicts if verdict.level == 1), {})
    group = first.get("space_group", "")
    what = "stable" if claim.limit <= 0 else "metastable"
    lines = [
        f"{claim.formula}  {group}  {claim.crystal.n_atoms} atoms  level {record.level}",
        f"claims to be {what}: {claim.above_hull:+.3f} eV/atom above the hull",
    ]
    for name, phases in first.get("decomposition", {}).items():
        lines.append(f"  {LABELS.get(name, name)}: {claim.above[name]:+.3f} against {phases}")
    lines += [f"  {words}" for words in _circumstances(first)]
    for verdict in record.verdicts:
        if verdict.level == 0:
            continue
        word = {True: "passed", False: "FAILED", None: "not possible"}[verdict.passed]
        cost = f" [{verdict.cpu_seconds:.1f} s]" if verdict.cpu_seconds else ""
        lines.append(f"{verdict.level} {word}: {verdict.reason}{cost}")
    return "\n".join(
        part
        for line in lines
        for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    )


def _circumstances(first: Mapping[str, Any]) -> list[str]:
    """What level 1 noted beside the distances."""
    found = []
    if (percentile := first.get("depth_percentile")) is not None:
        found.append(f"deeper than {percentile:.0f} % of known stable compounds of its kind")
    if (finds := first.get("with_finds_ev_per_atom")) is not None:
        found.append(f"{finds:+.3f} with the campaign's other finds on the hull")
    if own := first.get("with_own_elements_ev_per_atom"):
        found.append(f"{max(own.values()):+.3f} with the elements where the potential has them")
    if system := first.get("system"):
        found.append(str(system))
    if known := first.get("known_in"):
        found.append(f"known: {', '.join(known)}")
    return found

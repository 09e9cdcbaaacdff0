"""How many claims survive each level, what each level costs, and which attack breaks most."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anchor.statistics import wilson_interval
from anchor.verify.claims import Level, Verdict
from anchor.verify.run import Record


@dataclass(frozen=True)
class Survival:
    """One level's row.

    Attributes:
        level: Its number.
        name: Its name.
        attacked: Claims that it was tried on.
        passed: Those that survived; `replaced` of them as a lower crystal.
        failed: Those that did not.
        untried: Those where the attack could not be tried.
        replaced: Claims that go on as a lower crystal of their formula.
        cpu_seconds: Per claim that it was tried on.
    """

    level: int
    name: str
    attacked: int
    passed: int
    failed: int
    untried: int
    replaced: int
    cpu_seconds: float


def retention(records: Sequence[Record], levels: Sequence[Level]) -> list[Survival]:
    """A row per level, in order; every claim is in the first level's count."""
    rows = []
    for level in levels:
        found = [v for record in records for v in record.verdicts if v.level == level.number]
        if level.number == 0 and not found:
            continue
        passed = [verdict for verdict in found if verdict.passed]
        rows.append(
            Survival(
                level=level.number,
                name=level.name,
                attacked=len(found),
                passed=len(passed),
                failed=sum(verdict.passed is False for verdict in found),
                untried=sum(verdict.passed is None for verdict in found),
                replaced=sum(verdict.replacement is not None for verdict in passed),
                cpu_seconds=sum(v.cpu_seconds or 0.0 for v in found) / len(found) if found else 0.0,
            )
        )
    return rows


def in_words(records: Sequence[Record], rows: Sequence[Survival]) -> list[str]:
    """The same as sentences: what survived everything, and which attack broke most."""
    if not rows or not records:
        return ["no claims"]
    last = rows[-1]
    tried = [r for r in records if r.verdicts and (not r.stands or r.verdicts[-1].level == last.level)]
    kept = sum(record.stands for record in tried)
    low, high = wilson_interval(np.array([kept]), np.array([len(tried)]))
    lines = [
        f"{kept} of {len(tried)} claims survive level {last.level} "
        f"({100 * low[0]:.0f}–{100 * high[0]:.0f} %, 95 % interval)"
    ]
    broken = Counter({f"level {row.level} ({row.name})": row.failed for row in rows if row.failed})
    if broken:
        name, count = broken.most_common(1)[0]
        lines.append(f"{name} breaks most: {count} of {sum(broken.values())}")
    for row in rows:
        failed = [v for r in records for v in r.verdicts if v.level == row.level and not v.passed]
        if failed:
            lines.append(f"level {row.level}: " + "; ".join(f"{n} {kind}" for kind, n in kinds(failed)))
    return lines


def kinds(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """Reasons without their numbers and details, most frequent first."""
    found = (re.split("[:(]", verdict.reason)[0].strip() for verdict in verdicts)
    return Counter(re.sub(r"[-+]?\d[\d.]*", "…", reason) for reason in found).most_common()


def as_plain(rows: Sequence[Survival]) -> list[dict[str, Any]]:
    """For JSON."""
    return [{**asdict(row), "cpu_seconds": round(row.cpu_seconds, 2)} for row in rows]

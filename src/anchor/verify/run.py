"""Levels one after the other, cheapest first; what is known already is not asked again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from anchor.search.identity import code_hash
from anchor.verify.claims import Claim, Context, Level, Verdict
from anchor.verify.stores import Store

ATTACKS = ("verify", "filling", "dft")
"""Folders whose code decides verdicts, beside those that decide a campaign's numbers."""


@dataclass
class Record:
    """A claim and what it went through.

    Attributes:
        claim: As it was first made.
        now: As it stands: the same, or the lower crystal that took its place.
        verdicts: In the order of levels, up to the first that it did not pass.
    """

    claim: Claim
    now: Claim
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Hash of the crystal that was attacked first."""
        return self.claim.crystal.hash

    @property
    def level(self) -> int:
        """Highest level that it passed; 0: none."""
        return max((verdict.level for verdict in self.verdicts if verdict.passed), default=0)

    @property
    def stands(self) -> bool:
        """Whether it passed everything that was tried."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def why(self) -> str:
        """Why it did not pass the next level; '' if it was not tried."""
        return "" if self.stands else self.verdicts[-1].reason

    def add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if verdict.passed and verdict.replacement is not None:
            self.now = verdict.replacement


def verify(
    claims: Sequence[Claim],
    context: Context,
    levels: Sequence[Level],
    store: Store,
    *,
    most: int | None = None,
    sample: bool = False,
    on_verdict: Callable[[Record, Verdict], object] | None = None,
) -> list[Record]:
    """Attack claims level by level; each chunk of verdicts is stored as soon as it is there.

    Args:
        claims: What to attack.
        context: What the levels use.
        levels: Cheapest first.
        store: Verdicts of before, and those to come.
        most: So many claims, the lowest above the hull, go on beyond level 1.
        sample: Not the lowest, but chosen by chance from the seed and the claim's name: they tell how many of
            all would stand. More of them hold the fewer.
        on_verdict: Hears of every verdict, those of before included.
    """
    records = [Record(claim, claim) for claim in claims]
    code = code_hash(also=ATTACKS)
    going = records
    for level in levels:
        going = [record for record in going if record.stands]
        if most is not None and level.number > 1:
            going = sorted(going, key=partial(_lot, context.seed) if sample else _height)[:most]
        standing = [record for record in going if level.number > 0 or not record.now.refined]
        if not standing:
            continue
        shared: dict[str, object] = {
            "level": [level.number, level.name],
            "settings": level.settings(context),
            "context": context.identity(),
            "code": code,
        }
        waiting: list[tuple[Record, str]] = []
        for record in standing:
            key = _key(shared, record)
            known = store.get(record.now, level.number, key)
            if known is None:
                waiting.append((record, key))
            else:
                record.add(known)
                if on_verdict is not None:
                    on_verdict(record, known)
        for start in range(0, len(waiting), level.chunk):
            chunk = waiting[start : start + level.chunk]
            made = _attacked(level, [record.now for record, _ in chunk], context)
            kept = [(key, record.origin, one) for (record, key), one in zip(chunk, made, strict=True)]
            store.put(kept, context)
            for (record, _), verdict in zip(chunk, made, strict=True):
                record.add(verdict)
                if on_verdict is not None:
                    on_verdict(record, verdict)
    return records


def _height(record: Record) -> float:
    return record.now.above_hull


def _lot(seed: int, record: Record) -> bytes:
    return hashlib.sha256(f"{seed} {record.claim.id}".encode()).digest()


def _attacked(level: Level, claims: Sequence[Claim], context: Context) -> list[Verdict]:
    """Verdicts with the CPU seconds they took; where a level does not tell, each takes an equal share."""
    began = time.process_time() + context.executor.cpu_elsewhere
    made = level.attack(claims, context)
    spent = time.process_time() + context.executor.cpu_elsewhere - began
    told = sum(verdict.cpu_seconds or 0.0 for verdict in made)
    untold = sum(verdict.cpu_seconds is None for verdict in made)
    share = max(spent - told, 0.0) / untold if untold else 0.0
    return [v if v.cpu_seconds is not None else replace(v, cpu_seconds=share) for v in made]


def _key(shared: dict[str, object], record: Record) -> str:
    text = json.dumps({**shared, "claim": record.now.hash, "origin": record.origin}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()

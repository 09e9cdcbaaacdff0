"""A small protocol that costs nothing: judges density, 'relaxes' by swelling, refuses hydrogen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from anchor.crystals.crystals import Crystals
from anchor.evaluate.protocol import RELAXED, Mean, Metric, Protocol, Rate, Row


class ToyProtocol(Protocol):
    name = "toy"
    chunk = 4
    metric_list = (
        Metric("dense", "Dense", description="less than 15 Å³ per atom"),
        Metric("unique", "Unique"),
        Metric("failed", "Failed", "count", None),
        Metric("volume", "Volume", "value", "low", "Å³/atom", column="volume_a3_per_atom"),
    )

    def __init__(self, *, limit: float = 15.0, swell: float = 1.0, die_after: int | None = None,
                 seconds: float = 0.0) -> None:  # fmt: skip
        self.limit, self.swell, self.die_after, self.seconds = limit, swell, die_after, seconds
        self.measured = 0

    def measure(self, crystals: Crystals) -> list[Row]:
        rows: list[Row] = []
        for crystal in crystals:
            if self.measured == self.die_after:
                raise KeyboardInterrupt
            self.measured += 1
            time.sleep(self.seconds)
            if 1 in crystal.numbers:
                rows.append({"status": "failed", "reason": "hydrogen"})
                continue
            swollen = crystal.replace(lattice=crystal.lattice * self.swell)
            rows.append({"volume_a3_per_atom": float(swollen.volume[0] / swollen.n_atoms), RELAXED: swollen})
        return rows

    def flag(
        self, rows: Sequence[Row], raw: Sequence[Crystals | None], relaxed: Sequence[Crystals | None]
    ) -> list[Row]:
        assert len(rows) == len(raw) == len(relaxed)
        seen: set[str | None] = {None}
        flags = []
        for row, crystal in zip(rows, relaxed, strict=True):
            dense = crystal is not None and row["volume_a3_per_atom"] < self.limit
            flags.append({"dense": dense, "unique": row["formula"] not in seen})
            seen.add(row["formula"])
        return flags

    def metrics(self, rows: Sequence[Row]) -> dict[str, Rate | Mean]:
        return {
            "dense": Rate.of(row["dense"] for row in rows),
            "unique": Rate.of(row["unique"] for row in rows),
            "failed": Rate.of(row["status"] == "failed" for row in rows),
            "volume": Mean.of(row["volume_a3_per_atom"] for row in rows),
        }

    def footer(self) -> dict[str, str]:
        return {"label": "toy", "gate": f"below {self.limit} Å³"}

    def identity(self) -> dict[str, Any]:
        return {"swell": self.swell}

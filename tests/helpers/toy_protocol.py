"""A small protocol that costs nothing: judges density, 'relaxes' by swelling, refuses hydrogen."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.evaluate.protocol import Mean, Metric, Protocol, Rate
from anchor.outcomes.columns import Column, declare
from anchor.outcomes.table import Outcomes

declare(Column("dense", "bool", "less than the limit"))
declare(Column("volume_a3_per_atom", "float", "Å³ per atom"))


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

    def measure(self, crystals: Crystals) -> Outcomes:
        for _ in range(len(crystals)):
            if self.measured == self.die_after:
                raise KeyboardInterrupt
            self.measured += 1
            time.sleep(self.seconds)
        swollen = crystals.replace(lattice=crystals.lattice * self.swell)
        hydrogen = np.bincount(crystals.owner, crystals.numbers == 1, minlength=len(crystals)) > 0
        return (
            Outcomes.of(swollen)
            .with_columns(
                status=["failed" if it else None for it in hydrogen],
                reason=["hydrogen" if it else None for it in hydrogen],
            )
            .keep_crystals(~hydrogen)
            .with_crystal_columns(volume_a3_per_atom=(swollen.volume / swollen.counts)[~hydrogen])
        )

    def flag(self, drawn: Outcomes, measured: Outcomes) -> Outcomes:
        assert drawn.n == measured.n
        formulas = measured.texts("formula")
        return measured.with_columns(
            dense=measured.has & (measured.numbers("volume_a3_per_atom") < self.limit),
            unique=[f != "" and formulas.index(f) == i for i, f in enumerate(formulas)],
        )

    def metrics(self, table: Outcomes) -> dict[str, Rate | Mean]:
        return {
            "dense": Rate.of(table.flags("dense")),
            "unique": Rate.of(table.flags("unique")),
            "failed": Rate.of(table.where("status", "failed")),
            "volume": Mean.of(table.numbers("volume_a3_per_atom")),
        }

    def footer(self) -> dict[str, str]:
        return {"label": "toy", "gate": f"below {self.limit} Å³"}

    def identity(self) -> dict[str, Any]:
        return {"swell": self.swell}

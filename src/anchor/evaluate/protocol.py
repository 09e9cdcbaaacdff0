"""What an evaluation protocol is, and the numbers it reports: rates with counts, means with spread.

An evaluation is one table (`anchor.outcomes.table`) with a row per structure, in sampling order. A protocol
fills it in two passes and counts it in a third:

1. `measure`: columns that depend on one structure alone (relaxation, energies, validity). Costly; run in
   chunks and checkpointed by `anchor.evaluate.run`, never repeated for the same structure.
2. `flag`: columns that depend on the other structures of the same seed or on a reference (unique, novel,
   SUN). Run on the whole set of a seed, again whenever needed.
3. `metrics`: rates and means, a pure function of the finished table.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from anchor.crystals.crystals import Crystals
from anchor.executors import Executor, Processes, Workplace
from anchor.outcomes.judge import FAILED
from anchor.outcomes.table import Outcomes
from anchor.potentials.base import Potential
from anchor.relax.parallel import Relaxer
from anchor.statistics import wilson_interval

CORE_COLUMNS = (
    "index",
    "seed",
    "source",
    "file",
    "formula",
    "cell",
    "n_atoms",
    "made_by",
    "status",
    "reason",
)
"""Columns every row has before a protocol sees it. `formula` is reduced; `cell` is the atoms of the cell."""


@dataclass(frozen=True)
class Rate:
    """k of n structures."""

    k: int
    n: int

    @classmethod
    def of(cls, flags: ArrayLike) -> Rate:
        """Count the true ones; None counts as false: what failed never leaves the denominator."""
        values = np.asarray(flags, dtype=bool)
        return cls(int(values.sum()), len(values))

    @property
    def value(self) -> float:
        """Fraction in [0, 1], NaN of nothing."""
        return self.k / self.n if self.n else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson score interval, 95 %: right also for k = 0 and k = n; NaN of nothing."""
        if not self.n:
            return math.nan, math.nan
        low, high = wilson_interval(np.array([self.k]), np.array([self.n]))
        return float(low[0]), float(high[0])


@dataclass(frozen=True)
class Mean:
    """Mean and sample standard deviation of n values (those that exist)."""

    value: float
    std: float
    n: int

    @classmethod
    def of(cls, values: ArrayLike | Sequence[float | None]) -> Mean:
        """Of the finite values; how many those are is part of the result."""
        given = np.asarray(values, dtype=np.float64)
        finite = given[np.isfinite(given)]
        if not len(finite):
            return cls(math.nan, math.nan, 0)
        return cls(
            float(finite.mean()), float(finite.std(ddof=1)) if len(finite) > 1 else math.nan, len(finite)
        )

    def interval(self, z: float = 1.959964) -> tuple[float, float]:
        """Normal interval of the mean, 95 % by default; NaN below two values."""
        half = z * self.std / math.sqrt(self.n) if self.n > 1 else math.nan
        return self.value - half, self.value + half


@dataclass(frozen=True)
class Metric:
    """How one metric is shown and ranked.

    Attributes:
        name: Key in `Protocol.metrics`.
        label: Heading of its column.
        show: "percent" of n, "count" (k of a `Rate`), or "value" (a `Mean`, in `unit`).
        better: Which end is good; None is never ranked.
        unit: Of a "value".
        description: One sentence.
        headline: Shown in the summary and the comparison; the others are in the files only.
        column: Column of the table it counts or averages over all rows, '' if it is the name; paired
            differences exist where there is such a column.
    """

    name: str
    label: str
    show: Literal["percent", "count", "value"] = "percent"
    better: Literal["high", "low"] | None = "high"
    unit: str = ""
    description: str = ""
    headline: bool = True
    column: str = ""


class Protocol(ABC):
    """One way to judge structures. Subclasses load potential, hull and references when first needed."""

    name: ClassVar[str]
    """As typed after `--protocol`."""

    metric_list: ClassVar[tuple[Metric, ...]]
    """Every key of `metrics`, in the order of the table."""

    @abstractmethod
    def measure(self, crystals: Crystals) -> Outcomes:
        """Measure each crystal on its own: a row for each, in order, with the relaxed crystals.

        May set `status` and `reason` ("measured" is the default; "failed" with a reason counts against the
        structure; "not scored" for what the protocol cannot judge, such as an element without reference).
        A row whose relaxation came to nothing has no crystal. One bad crystal must not harm the others. The
        core calls this with small chunks (`chunk`) and stores what it returns.
        """

    @abstractmethod
    def flag(self, drawn: Outcomes, measured: Outcomes) -> Outcomes:
        """The finished table of one seed, in sampling order: `measured` with further columns.

        Args:
            drawn: Core columns, with the structures as read or generated.
            measured: The same rows with the columns of `measure` too, and the relaxed structures. Rows that
                were never read or realised have status "failed" and nothing measured.
        """

    @abstractmethod
    def metrics(self, table: Outcomes) -> dict[str, Rate | Mean]:
        """Rates and means of the finished table of one seed. Pure: reads nothing but its columns."""

    @abstractmethod
    def footer(self) -> dict[str, str]:
        """What made the numbers: keys label, gate, potential, hull, relaxation, novelty, and others.

        Rows of a comparison are ranked together only if their footers are equal.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that decides `measure` (plain JSON): equal identity, equal measurements.

        Settings of `flag` alone, such as the gate of the internal protocol, stay out: a folder measured under
        an equal identity is flagged anew without relaxing again.
        """

    placing: ClassVar[tuple[str, ...]] = ()
    """Keys of `identity` that only decide where measured structures lie on a hull, not the structures."""

    def place(self, measured: Outcomes) -> Outcomes:
        """Measured rows that differ from this protocol's in `placing` alone, as this protocol has them."""
        return measured

    def tables(self, table: Outcomes, *, label: str) -> dict[str, list[dict[str, Any]]]:  # noqa: ARG002
        """Further CSV files the protocol is known for: name → lines. `table` is that of all seeds."""
        return {}

    chunk: int = 16
    """Crystals per call of `measure` and per checkpoint."""

    where: Workplace = Workplace(workers=1)
    """Where crystals are relaxed and compared; potentials are loaded there by name."""

    _executor: Executor | None = None

    def relaxer(self, potential: Potential) -> Relaxer:
        """Relaxes on the protocol's workers, which stay until it is gone."""
        if self._executor is None:
            self._executor = self.where.open(threads=torch.get_num_threads())
        return Relaxer(potential, executor=self._executor)

    def watched(self, seconds: float) -> Executor:
        """For work that may hang: on Ray, or else on processes even if one would do: they can be killed."""
        return (
            self.where.open(seconds=seconds) if self.where.executor == "ray" else Processes(seconds=seconds)
        )

    def fault(self, row: Mapping[str, Any]) -> str:
        """Why a finished row failed or is not valid, '' if it is: what the self-test lists.

        Told from the columns `valid` and `…validity`, and from those that give reasons (`…reason`, `…fault`).
        """
        refused = [
            name
            for name, value in row.items()
            if value is False and (name == "valid" or name.endswith("validity"))
        ]
        if row["status"] != FAILED and not refused:
            return ""
        why = [str(value) for name, value in row.items() if value and name.endswith(("reason", "fault"))]
        return "; ".join(why or refused or ["failed"])


def over_seeds(values: Sequence[Rate | Mean], *, count: bool = False) -> Mean:
    """Mean and sample standard deviation of a metric over sampling seeds: of its value, or of its count k."""
    return Mean.of([value.k if count and isinstance(value, Rate) else value.value for value in values])


def as_plain(value: Rate | Mean) -> dict[str, Any]:
    """For JSON: counts or spread, value and 95 % interval; None instead of NaN."""
    low, high = value.interval()
    fields: Mapping[str, Any] = vars(value)
    numbers = {"value": value.value, **fields, "low": low, "high": high}
    return {key: finite(v) if isinstance(v, float) else v for key, v in numbers.items()}


def finite(value: float) -> float | None:
    """For JSON and CSV: None instead of NaN."""
    return value if math.isfinite(value) else None

"""The live view of a campaign: a panel on a terminal, one plain line per step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anchor.outcomes.columns import ABOVE
from anchor.outcomes.tally import LABELS, Tally, split_time

if TYPE_CHECKING:
    from anchor.search.campaign import StepReport

RATES = tuple((name, label) for name, label in LABELS.items() if name != "known")
BEST = 8


class LiveView:
    """Follows a campaign step by step. Use it as a context manager, and as the campaign's `on_step`."""

    def __init__(self, tally: Tally, budget: int, *, quiet: bool = False) -> None:
        self.tally = tally
        self.budget = budget
        self.best: list[tuple[float, str, float]] = []
        self._start, self._done_before = time.monotonic(), tally.proposed
        self._seconds: dict[str, float] = {}
        self._terminal = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._live: Any = None

    def recall(self, rows: Iterable[dict[str, Any]]) -> LiveView:
        """Count the candidates of earlier runs of the campaign."""
        for row in rows:
            self._count(row)
        self._done_before = self.tally.proposed
        return self

    def __enter__(self) -> LiveView:
        if self._terminal:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def __call__(self, report: StepReport) -> None:
        for row in report.rows:
            self._count(row)
        for name, seconds in report.seconds.items():
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        if self._live is not None:
            self._live.update(self._panel(report))
        elif not self._quiet:
            print(self._line(report), file=sys.stderr, flush=True)

    def _count(self, row: dict[str, Any]) -> None:
        flags = self.tally.add(row)
        if flags["metastable"] and flags["unique"] and not flags["known_anywhere"]:
            self.best.append((row[ABOVE], row["formula"], row["novelty"]))
            self.best = sorted(self.best)[:BEST]

    def _eta(self) -> str:
        done = self.tally.proposed - self._done_before
        left = (time.monotonic() - self._start) / max(done, 1) * max(self.budget - self.tally.proposed, 0)
        minutes, seconds = divmod(round(left), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"

    def _line(self, report: StepReport) -> str:
        counts, metrics = self.tally.counts, report.metrics
        entropy = ""
        if "entropy" in metrics:  # an untrained source has none
            entropy = f", entropy {metrics['entropy_fraction']:.2f} of H_max"
        elif "formulas_tried" in metrics:
            entropy = f" | {seen_of_space(metrics)}"
        return (
            f"step {report.step + 1}: {self.tally.proposed}/{self.budget} structures, {self._eta()} left | "
            f"valid {counts['valid']}, MSUN {counts['msun']}, SUN {counts['sun']} | "
            f"reward {metrics['reward_mean']:+.3f}{entropy}"
        )

    def _panel(self, report: StepReport) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.columns import Columns
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tally, metrics = self.tally, report.metrics
        head = Text(
            f"step {report.step + 1}   {tally.proposed}/{self.budget} structures   {self._eta()} left"
        )
        rates = Table(box=SIMPLE_HEAD)
        rates.add_column("of all proposed")
        rates.add_column("count", justify="right")
        rates.add_column("%", justify="right")
        for name, label in RATES:
            rates.add_row(label, str(tally.counts[name]), f"{100 * tally.rate(name):.1f}")
        learning = Table(box=SIMPLE_HEAD)
        learning.add_column("this step")
        learning.add_column("", justify="right")
        terms = {
            "reward": f"{metrics['reward_mean']:+.3f} ± {metrics['reward_std']:.3f}",
            **_control(metrics),
            **{name: _mean(report.rows, name) for name in ("stability", "novelty", "d_struct", "d_comp")},
        }
        for name, value in terms.items():
            learning.add_row(name, value)
        best = Table(box=SIMPLE_HEAD)
        best.add_column("best so far")
        best.add_column("E_hull eV/atom", justify="right")
        best.add_column("novelty", justify="right")
        for energy, formula, novelty in self.best:
            best.add_row(formula, f"{energy:+.3f}", f"{novelty:.2f}")
        parts = split_time(self._seconds)
        total = sum(parts.values()) or 1.0
        shares = ", ".join(f"{name} {100 * s / total:.0f} %" for name, s in parts.items())
        if "formulas_tried" in metrics:
            head.append(f"   {seen_of_space(metrics)}")
        bar = ProgressBar(total=self.budget, completed=tally.proposed, width=60)
        return Group(head, bar, Columns([rates, learning, best]), Text(f"time: {shares}", style="dim"))


def seen_of_space(metrics: dict[str, float]) -> str:
    """How much of what is within the limits a screened search has tried: '212 of 212 formulas tried'."""
    tried, total = int(metrics["formulas_tried"]), int(metrics["formulas_within_limits"])
    each = int(metrics["structures_each"])
    again = f", {each} structures each" if each > 1 else ""
    return f"{tried:,} of {total:,} formulas tried{again}"


def _control(metrics: dict[str, float]) -> dict[str, str]:
    """Entropy and its controller; an untrained source has neither."""
    if "entropy" not in metrics:
        return {}
    return {
        "H / H_max": f"{metrics['entropy_fraction']:.3f}",
        "target − H/H_max": f"{metrics['entropy_error']:+.3f}",
        "β_H": f"{metrics['beta']:.4f}",
    }


def _mean(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows if row["valid"] and row[name] is not None]
    return f"{sum(values) / len(values):.3f} (n={len(values)})" if values else "–"

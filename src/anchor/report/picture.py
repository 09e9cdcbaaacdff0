"""One picture of a campaign, or of several over each other: rates, reward, control, known formulas, time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anchor.errors import InputError
from anchor.outcomes.tally import LABELS
from anchor.report.summary import Run
from anchor.writing import draft

COLORS = ("#1b6ca8", "#d1495b", "#2a9d8f", "#e9a23b", "#6d597a", "#8d99ae")
PART_COLORS = {
    "policy": "#6d597a",
    "prior": "#e9a23b",
    "potential": "#1b6ca8",
    "relaxation": "#8fbcd8",
    "hull": "#2a9d8f",
    "scoring": "#d1495b",
    "database": "#8d99ae",
}
PANELS = (
    ("valid", "Valid", "% of proposed"),
    ("metastable", LABELS["metastable"].capitalize(), "% of proposed"),
    ("msun", LABELS["msun"], "% of proposed"),
    ("found", "MSUN found so far", "candidates"),
    ("reward", "Reward", "mean"),
    ("stability", r"Stability $s_\mathrm{stab}$", "mean of valid"),
    ("novelty", r"Novelty $\nu$", "mean of valid"),
    ("count_bonus", r"Count bonus $\lambda_c/\sqrt{n_f}$", "mean of valid"),
    ("d_struct", r"Structural diversity $d_\mathrm{struct}$", "mean of valid"),
    ("d_comp", r"Compositional diversity $d_\mathrm{comp}$", "mean of valid"),
    ("known_anywhere", "Formula known already", "% of valid"),
    ("history", "Formula found before in this run", "% of valid"),
    ("entropy_fraction", r"Entropy $H/H_\mathrm{max}$", "dotted: target"),
    ("beta", r"Entropy coefficient $\beta_H$", "dashed: schedule"),
)
PERCENT = {"valid", "metastable", "msun", "known_anywhere", "history"}
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#555555",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.grid": True,
    "grid.color": "#eeeeee",
    "axes.axisbelow": True,
    "mathtext.fontset": "dejavusans",
}


SUFFIXES = (".png", ".pdf", ".svg")


def write_picture(runs: Sequence[Run], path: Path) -> Path:
    """Draw the runs over each other, with 95 % bands, and write a PNG (or what the suffix says)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    if path.suffix not in SUFFIXES:
        raise InputError(f"no picture can be written to '{path}'", f"end its name in {', '.join(SUFFIXES)}")
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(14, 11.5), layout="constrained")
        grid = figure.add_gridspec(4, 4)
        for number, (name, title, unit) in enumerate(PANELS):
            axes = figure.add_subplot(grid[divmod(number, 4)])
            axes.set_title(title)
            axes.set_ylabel(unit)
            for run, color in zip(runs, _colors(runs), strict=True):
                _draw(axes, run, name, color)
            axes.set_xlim(0, max(run.tally.proposed for run in runs))
            axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
            if name not in ("reward", "entropy_fraction"):
                axes.set_ylim(bottom=0)
            if number >= 10:
                axes.set_xlabel("structures proposed")
        _draw_time(figure.add_subplot(grid[3, 2:]), runs)
        lines = [Line2D([], [], color=color, linewidth=2.5) for color in _colors(runs)]
        figure.legend(
            lines, [_label(run) for run in runs], loc="outside upper center", ncols=min(len(runs), 3),
            frameon=False, fontsize=11,
        )  # fmt: skip
        with draft(path) as made:
            figure.savefig(made, dpi=110)
        plt.close(figure)
    return path


def _colors(runs: Sequence[Run]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(runs))]


def _label(run: Run) -> str:
    return f"{run.label}: {run.tally.proposed:,} proposed, {run.relaxations:,} relaxed"


def _draw(axes: Any, run: Run, name: str, color: str) -> None:
    """One quantity of one run."""
    if name == "found":
        axes.step(
            [0, *run.found, run.tally.proposed], [0, *range(1, len(run.found) + 1), len(run.found)],
            where="post", color=color, linewidth=1.6,
        )  # fmt: skip
        return
    if name not in run.curves:
        return
    curve, scale = run.curves[name], 100 if name in PERCENT else 1
    x = curve.structures
    axes.fill_between(x, scale * curve.low, scale * curve.high, color=color, alpha=0.16, linewidth=0)
    axes.plot(x, scale * curve.value, color=color, linewidth=1.6, marker="o", markersize=2.5)
    if name == "entropy_fraction":
        axes.axhline(run.config.entropy.target, color=color, linewidth=1, linestyle=":")
    if name == "beta":
        axes.plot(x, run.curves["beta_scheduled"].value, color=color, linewidth=1, linestyle="--")


def _draw_time(axes: Any, runs: Sequence[Run]) -> None:
    """Shares of the time by part, a bar for each run."""
    from matplotlib.patches import Patch

    axes.set_title("Where the time went")
    axes.set_xlabel("% of the time")
    axes.grid(visible=False)
    axes.set_xlim(0, 100)
    for row, run in enumerate(runs):
        total, left = sum(run.seconds.values()) or 1.0, 0.0
        for name, seconds in run.seconds.items():
            share = 100 * seconds / total
            axes.barh(row, share, left=left, color=PART_COLORS.get(name, "#cccccc"), height=0.5)
            if share >= 5:
                axes.text(
                    left + share / 2, row, f"{share:.0f}", ha="center", va="center", color="white",
                    fontweight="bold",
                )  # fmt: skip
            left += share
        hours = sum(run.seconds.values()) / 3600
        axes.text(0, row - 0.36, f"{run.label}, {hours:.2f} h", va="bottom", color="#333333")
    axes.set_yticks([])
    axes.set_ylim(len(runs) - 0.6, -0.7)
    axes.spines["left"].set_visible(False)
    names = [name for name in PART_COLORS if any(name in run.seconds for run in runs)]
    rest = {"relaxation": "relaxation (rest)"} if "potential" in names else {}
    axes.legend(
        [Patch(color=PART_COLORS[name]) for name in names], [rest.get(name, name) for name in names],
        loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=len(names), frameon=False, fontsize=8,
        handlelength=1, columnspacing=1,
    )  # fmt: skip

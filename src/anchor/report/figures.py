"""Plots of a campaign, as plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from anchor.outcomes.tally import LABELS, split_time
from anchor.report.curves import Curve

COLORS = ("#1b6ca8", "#d1495b", "#2a9d8f", "#e9a23b", "#6d597a", "#8d99ae")
RATES = tuple((name, LABELS[name]) for name in ("valid", "novel", "metastable", "stable", "msun", "sun"))
TERMS = (
    ("stability", "stability"),
    ("novelty", "novelty"),
    ("d_struct", "d_struct"),
    ("d_comp", "d_comp"),
    ("count_bonus", "count bonus"),
    ("reward", "reward"),
)
KNOWN = (
    *((name, LABELS[name]) for name in ("known", "known_anywhere")),
    ("history", "formula found before in this run"),
)


def rates_figure(curves: Mapping[str, Curve]) -> go.Figure:
    """Rates over the run, each with its 95 % band."""
    return _styled(_banded(curves, RATES, percent=True), "structures proposed", "% of proposed")


def known_figure(curves: Mapping[str, Curve]) -> go.Figure:
    """How often the search met what is known, or what it had found itself."""
    return _styled(_banded(curves, KNOWN, percent=True), "structures proposed", "% of valid")


def reward_figure(curves: Mapping[str, Curve]) -> go.Figure:
    """Mean reward and the mean of each term over valid candidates, each with its 95 % band."""
    return _styled(_banded(curves, TERMS, percent=False), "structures proposed", "mean")


def _banded(curves: Mapping[str, Curve], chosen: Sequence[tuple[str, str]], *, percent: bool) -> go.Figure:
    figure, scale = go.Figure(), 100 if percent else 1
    unit = "%{y:.1f} %" if percent else "%{y:.3f}"
    for (name, label), color in zip(chosen, COLORS, strict=False):
        if name not in curves:
            continue
        curve = curves[name]
        x, known = curve.structures.tolist(), np.isfinite(curve.low)
        band = x_band = []
        if known.any():
            band = [*(scale * curve.high[known]), *(scale * curve.low[known][::-1])]
            x_band = [*curve.structures[known], *curve.structures[known][::-1]]
        figure.add_trace(
            go.Scatter(
                x=x_band,
                y=band,
                mode="lines",
                fill="toself",
                fillcolor=f"rgba{(*_rgb(color), 0.12)}",
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
                legendgroup=name,
            )
        )
        figure.add_trace(
            go.Scatter(
                x=x,
                y=scale * curve.value,
                name=label,
                legendgroup=name,
                mode="lines+markers",
                line={"color": color},
                customdata=curve.trials,
                hovertemplate=unit + " of %{customdata}",
            )
        )
    return figure


def entropy_figure(steps: Sequence[Mapping[str, Any]], target: float) -> go.Figure:
    """Policy entropy against its target, and the coefficient the controller chose."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    x = [row["structures"] for row in steps]
    figure.add_trace(_line(x, [r["metrics"]["entropy_fraction"] for r in steps], "H / H_max", COLORS[0]))
    figure.add_hline(y=target, line={"color": COLORS[0], "dash": "dot"})
    beta = _line(x, [r["metrics"]["beta"] for r in steps], "β_H", COLORS[3])
    figure.add_trace(beta, secondary_y=True)
    figure.update_yaxes(title_text="β_H", secondary_y=True, rangemode="tozero", showgrid=False)
    return _styled(figure, "structures proposed", "H / H_max (dotted: target)")


def time_figure(steps: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Where the time went, s."""
    total: dict[str, float] = {}
    for row in steps:
        for name, seconds in row["seconds"].items():
            total[name] = total.get(name, 0.0) + seconds
    total = split_time(total)
    names = sorted(total, key=lambda name: -total[name])
    figure = go.Figure(
        go.Bar(
            x=[total[name] for name in names],
            y=names,
            orientation="h",
            marker={"color": COLORS[0]},
            text=[f"{100 * total[name] / (sum(total.values()) or 1):.1f} %" for name in names],
        )
    )
    figure.update_yaxes(autorange="reversed")
    return _styled(figure, "seconds", "")


def _line(x: Sequence[float], y: Sequence[float], name: str, color: str) -> go.Scatter:
    few = len(x) < 40  # a line of one or two points is invisible without markers
    return go.Scatter(x=x, y=y, name=name, mode="lines+markers" if few else "lines", line={"color": color})


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _styled(figure: go.Figure, x: str, y: str) -> go.Figure:
    figure.update_layout(
        template="simple_white",
        height=340,
        margin={"l": 60, "r": 30, "t": 20, "b": 50},
        legend={"orientation": "h", "y": 1.12},
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y, secondary_y=False) if figure._grid_ref else figure.update_yaxes(
        title_text=y
    )
    return figure

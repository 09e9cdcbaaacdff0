"""A crystal in three dimensions, as a plotly figure that turns in any browser without a network."""

from __future__ import annotations

from itertools import product

import numpy as np
import plotly.graph_objects as go
from ase.data import chemical_symbols, covalent_radii
from ase.data.colors import jmol_colors
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals

BOND_STRETCH = 1.15
"""Atoms closer than this times the sum of their covalent radii are drawn bonded."""


def crystal_figure(crystal: Crystals, *, size: int = 360) -> go.Figure:
    """One crystal: atoms of the cell with those on its faces repeated, bonds, cell edges."""
    cell = crystal.lattice[0]
    frac, numbers = with_boundary_atoms(crystal)
    cart = frac @ cell
    figure = go.Figure()
    figure.add_trace(_lines(_cell_edges(cell), color="#888888", width=2))
    figure.add_trace(_lines(_bonds(cart, numbers), color="#b0b0b0", width=5))
    for z in np.unique(numbers):
        chosen = numbers == z
        x, y, w = cart[chosen].T
        figure.add_trace(
            go.Scatter3d(
                x=x,
                y=y,
                z=w,
                mode="markers",
                name=chemical_symbols[z],
                hoverinfo="name",
                marker={
                    "size": 9 + 9 * float(covalent_radii[z]),
                    "color": _hex(jmol_colors[z]),
                    "opacity": 1.0,
                    "line": {"color": "#404040", "width": 1},
                },
            )
        )
    hidden = {"visible": False}
    figure.update_layout(
        width=size,
        height=size,
        margin={"l": 0, "r": 0, "t": 0, "b": 30},
        scene={
            "xaxis": hidden,
            "yaxis": hidden,
            "zaxis": hidden,
            "aspectmode": "data",
            "camera": {"eye": {"x": 1.7, "y": 1.3, "z": 0.9}},
        },
        legend={"orientation": "h", "y": -0.02, "font": {"size": 12}},
        paper_bgcolor="rgba(0,0,0,0)",
    )
    for trace in figure.data[:2]:
        trace.showlegend = False
    return figure


def with_boundary_atoms(crystal: Crystals) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Atoms in the closed unit cell: those on a face, edge or corner appear on all of them.  # [m, 3], [m]"""
    frac = crystal.frac - np.floor(crystal.frac + 1e-6)
    images = np.array(list(product((0, 1), repeat=3)))
    all_frac = (frac[:, None, :] + images[None]).reshape(-1, 3)
    all_numbers = np.repeat(crystal.numbers, len(images))
    inside = (all_frac <= 1 + 1e-3).all(axis=1)
    return all_frac[inside], all_numbers[inside]


def _cell_edges(cell: NDArray[np.float64]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    corners = [np.array(c, dtype=float) for c in product((0, 1), repeat=3)]
    return [
        (a @ cell, b @ cell) for a in corners for b in corners if (b - a).sum() == 1 and ((b - a) >= 0).all()
    ]


def _bonds(
    cart: NDArray[np.float64], numbers: NDArray[np.int64]
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    distance = np.linalg.norm(cart[:, None] - cart[None], axis=2)
    reach = BOND_STRETCH * (covalent_radii[numbers][:, None] + covalent_radii[numbers][None])
    first, second = np.nonzero(np.triu(distance < reach, k=1))
    return [(cart[i], cart[j]) for i, j in zip(first, second, strict=True)]


def _lines(
    segments: list[tuple[NDArray[np.float64], NDArray[np.float64]]], *, color: str, width: int
) -> go.Scatter3d:
    gap = np.full(3, np.nan)
    points = np.array([p for a, b in segments for p in (a, b, gap)]).reshape(-1, 3)
    x, y, z = points.T
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", hoverinfo="skip", line={"color": color, "width": width})


def _hex(rgb: NDArray[np.float64]) -> str:
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)

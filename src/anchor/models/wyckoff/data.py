"""Crystals as padded sequences of choices, for training and for continuing what was begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.arrays import content_hash
from anchor.crystals.crystals import Crystals
from anchor.models.volumes import atomic_volumes
from anchor.models.wyckoff.encoding import Encoded, Orbit, element_order, encode
from anchor.models.wyckoff.network import MOST_ATOMS, Sequences
from anchor.models.wyckoff.tables import tables
from anchor.paths import cache_dir
from anchor.writing import draft

_VERSION = 1


def expected_edge(group: int, counts: dict[int, int]) -> float:
    """Edge of a cube, Å, with the volume that the atoms of a conventional cell should have."""
    atomic = atomic_volumes()
    primitive = sum(count * float(atomic[z]) for z, count in counts.items())
    return float(primitive * tables().centring[group - 1]) ** (1 / 3)


def scaled_cells(encoded: Sequence[Encoded]) -> NDArray[np.float64]:
    """ln of lengths over `expected_edge`, and cosines.  # [n, 6]"""
    cells = np.array([one.cell for one in encoded]).reshape(-1, 6)
    edges = np.array([expected_edge(one.group, one.counts) for one in encoded])
    return np.concatenate([np.log(cells[:, :3] / edges[:, None]), cells[:, 3:]], axis=1)


def unscaled_cell(numbers: Sequence[float], group: int, counts: dict[int, int]) -> tuple[float, ...]:
    """The inverse of `scaled_cells` for one crystal: lengths, Å, and cosines."""
    edge = expected_edge(group, counts)
    lengths = [float(edge * np.exp(x)) for x in numbers[:3]]
    return (*lengths, *(float(np.clip(c, -0.95, 0.95)) for c in numbers[3:]))


def crystals_hash(crystals: Crystals) -> str:
    """Identity of some crystals."""
    return content_hash({name: getattr(crystals, name) for name in ("counts", "numbers", "frac", "lattice")})


def encoded_set(crystals: Crystals) -> tuple[NDArray[np.int64], list[Encoded]]:
    """Which crystals can be described with at most 20 atoms per primitive cell, and their descriptions.

    Takes about 6 ms a crystal, once: the result is kept in the user's cache folder.
    """
    path = cache_dir() / "wyckoff" / f"{crystals_hash(crystals)[:32]}-{_VERSION}.npz"
    if not path.exists():
        described = [(i, encode(crystal)) for i, crystal in enumerate(crystals)]
        _save(path, [(i, one) for i, one in described if one is not None and _fits(one)])
    return _read(path)


def _fits(encoded: Encoded) -> bool:
    return sum(encoded.counts.values()) <= MOST_ATOMS


def _save(path: Path, described: Sequence[tuple[int, Encoded]]) -> None:
    orbits = [orbit for _, one in described for orbit in one.orbits]
    free = np.zeros((len(orbits), 3))
    for row, orbit in zip(free, orbits, strict=True):
        row[: len(orbit.free)] = orbit.free
    with draft(path) as made, made.open("wb") as file:
        np.savez(
            file,
            member=np.array([i for i, _ in described], dtype=np.int64),
            group=np.array([one.group for _, one in described], dtype=np.int16),
            cell=np.array([one.cell for _, one in described]).reshape(-1, 6),
            orbits=np.array([len(one.orbits) for _, one in described], dtype=np.int16),
            element=np.array([orbit.element for orbit in orbits], dtype=np.int16),
            position=np.array([orbit.position for orbit in orbits], dtype=np.int16),
            free=free,
        )


def _read(path: Path) -> tuple[NDArray[np.int64], list[Encoded]]:
    with np.load(path, allow_pickle=False) as file:
        member, group, cell, length = file["member"], file["group"], file["cell"], file["orbits"]
        element, position, free = file["element"], file["position"], file["free"]
    known = tables()
    freedom = known.freedom[known.first[np.repeat(group, length) - 1] + position]
    orbits = [
        Orbit(int(z), int(p), tuple(u[:f].tolist()))
        for z, p, u, f in zip(element, position, free, freedom, strict=True)
    ]
    ends = np.cumsum(length)
    return member, [
        Encoded(int(g), tuple(orbits[end - n : end]), tuple(c.tolist()))
        for g, end, n, c in zip(group, ends, length, cell, strict=True)
    ]


Beginning = tuple[Sequence[int], Sequence[int], int, Sequence[Orbit]]
"""Elements in order, their counts, space group number (0: not chosen yet), orbits so far."""


def to_sequences(encoded: Sequence[Encoded], cells: NDArray[np.float64]) -> Sequences:
    """Padded arrays of whole crystals.

    Args:
        encoded: At least one.
        cells: Standardised cell numbers.  # [b, 6]
    """
    whole = []
    for one in encoded:
        order = element_order(one.counts)
        whole.append((order, [one.counts[z] for z in order], one.group, one.orbits))
    return begun(whole, cells)


def begun(drafts: Sequence[Beginning], cells: NDArray[np.float64] | None = None) -> Sequences:
    """Padded arrays of crystals that may not be finished; at least one."""
    known = tables()
    b = len(drafts)
    k = max(len(elements) for elements, _, _, _ in drafts)
    s = max(len(orbits) for _, _, _, orbits in drafts)
    numbers, atoms = np.zeros((b, k), dtype=np.int64), np.zeros((b, k), dtype=np.int64)
    slot, left = np.full((b, s + 1), -1), np.zeros((b, s + 1), dtype=np.int64)
    position, free = np.zeros((b, s), dtype=np.int64), np.zeros((b, s, 3))
    for i, (elements, counts, group, orbits) in enumerate(drafts):
        numbers[i, : len(elements)], atoms[i, : len(elements)] = elements, counts
        place = {z: n for n, z in enumerate(elements)}
        remaining = list(counts)
        for j, orbit in enumerate(orbits):
            here = place[orbit.element]
            row = known.first[group - 1] + orbit.position
            slot[i, j], left[i, j], position[i, j] = here, remaining[here], row
            free[i, j, : len(orbit.free)] = orbit.free
            remaining[here] -= int(known.multiplicity[row])
        coming = next((n for n, count in enumerate(remaining) if count), -1)
        slot[i, len(orbits)], left[i, len(orbits)] = coming, remaining[coming] if coming >= 0 else 0
    return Sequences(
        torch.from_numpy(numbers),
        torch.from_numpy(atoms),
        torch.tensor([max(group - 1, 0) for _, _, group, _ in drafts]),
        torch.from_numpy(slot),
        torch.from_numpy(left),
        torch.from_numpy(position),
        torch.from_numpy(free).float(),
        torch.tensor([len(orbits) for _, _, _, orbits in drafts]),
        torch.from_numpy(np.zeros((b, 6)) if cells is None else cells).float(),
    )

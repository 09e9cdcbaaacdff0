"""All 1,731 Wyckoff positions as arrays, which ship; `python -m anchor.models.wyckoff.tables` finds them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.spacegroups import space_group
from anchor.models.wyckoff.cells import FREE_CELL, crystal_system
from anchor.models.wyckoff.positions import Position, find_positions
from anchor.paths import BUNDLED

N_GROUPS = 230
MOST_POSITIONS = 27
FILE = BUNDLED / "priors" / "wyckoff-positions.npz"


@dataclass(frozen=True, eq=False)
class Tables:
    """Every position of every group; `first[g - 1]` is where those of group g begin.

    Attributes:
        first: # [231]
        multiplicity, freedom: # [1731]
        point: # [1731, 3]
        directions: Rows beyond the freedom are zero.  # [1731, 3, 3]
        projector: Onto the directions, for rows.  # [1731, 3, 3]
        basis: Primitive vectors of each group in conventional ones.  # [230, 3, 3]
    """

    first: NDArray[np.int64]
    multiplicity: NDArray[np.int64]
    freedom: NDArray[np.int64]
    point: NDArray[np.float64]
    directions: NDArray[np.float64]
    projector: NDArray[np.float64]
    basis: NDArray[np.float64]

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """Positions of each group, −1 where there are no more.  # [230, 27]"""
        place = np.arange(MOST_POSITIONS)
        found = self.first[:-1, None] + place
        return np.where(found < self.first[1:, None], found, -1)

    @cached_property
    def free_cell(self) -> NDArray[np.bool_]:
        """Which of the six cell numbers each group leaves free.  # [230, 6]"""
        free = np.zeros((N_GROUPS, 6), dtype=bool)
        for number in range(1, N_GROUPS + 1):
            free[number - 1, list(FREE_CELL[crystal_system(number)])] = True
        return free

    @cached_property
    def centring(self) -> NDArray[np.int64]:
        """Primitive cells per conventional cell of each group.  # [230]"""
        return np.rint(1 / np.abs(np.linalg.det(self.basis))).astype(np.int64)


@cache
def tables() -> Tables:
    """As they ship."""
    with np.load(FILE, allow_pickle=False) as file:
        return Tables(**{field.name: file[field.name] for field in fields(Tables)})


@cache
def positions(number: int) -> tuple[Position, ...]:
    """The Wyckoff positions of a space group, the most special first."""
    known = tables()
    return tuple(
        Position(
            int(known.multiplicity[row]),
            int(known.freedom[row]),
            known.point[row],
            known.directions[row, : known.freedom[row]],
            known.projector[row],
        )
        for row in range(known.first[number - 1], known.first[number])
    )


def find_tables() -> Tables:
    """All positions from the operations of the groups: a quarter of a minute."""
    groups = [find_positions(number) for number in range(1, N_GROUPS + 1)]
    every = [position for group in groups for position in group]
    directions = np.zeros((len(every), 3, 3))
    for i, position in enumerate(every):
        directions[i, : position.freedom] = position.directions
    return Tables(
        np.cumsum([0, *(len(group) for group in groups)]),
        np.array([p.multiplicity for p in every]),
        np.array([p.freedom for p in every]),
        np.array([p.point for p in every]),
        directions,
        np.array([p.projector for p in every]),
        np.array([space_group(number).basis for number in range(1, N_GROUPS + 1)]),
    )


if __name__ == "__main__":
    np.savez_compressed(FILE, **asdict(find_tables()))

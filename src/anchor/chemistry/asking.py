"""What a structure prior is asked for, and whether that can be charge-neutral.

Charge is tested on the composition that is realised. A proposed cell is not always that one: asked for the
reduced formula, the paper's order c → f(c) → x, a prior makes one formula unit; left free, it makes as many
as it likes. H2Si2 is neutral, HSi is not, and HSi may be what is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions

Asking = Literal["cell", "reduced", "free"]
"""The cell as proposed; one formula unit; any number of formula units, by the prior's choice."""


def asked_for(compositions: Compositions, query: Asking) -> Compositions:
    """What the prior is asked for: the cells as proposed, or one formula unit of each."""
    return compositions if query == "cell" else compositions.reduced()


def can_be_neutral(
    compositions: Compositions,
    query: Asking,
    max_atoms: int,
    *,
    bounds: Mapping[str, tuple[int, int]] | None = None,
) -> NDArray[np.bool_]:
    """Whether some crystal that may be made of each proposed cell is charge-neutral.  # [n]

    Exact for "cell" and "reduced", where it is known what will be made. For "free" it is a check before the
    prior answers: one formula unit is neutral, or some number of them up to `max_atoms`; what was made is
    then tested as it is, `is_neutral(crystals.compositions)`.

    Args:
        compositions: Cells as proposed.
        query: What the prior is asked for.
        max_atoms: Most atoms the prior places; one formula unit is tested whatever its size.
        bounds: As in `is_neutral`.
    """
    asked = asked_for(compositions, query)
    neutral = is_neutral(asked, bounds=bounds)
    if query != "free":
        return neutral
    # Units that are neutral alone stay so together: only the others can gain by more of them
    open_rows, n_atoms = np.flatnonzero(~neutral), asked.n_atoms
    for units in range(2, max_atoms // int(n_atoms.min(initial=max_atoms)) + 1):
        open_rows = open_rows[~neutral[open_rows] & (units * n_atoms[open_rows] <= max_atoms)]
        neutral[open_rows] = is_neutral(asked[open_rows].times(units), bounds=bounds)
    return neutral

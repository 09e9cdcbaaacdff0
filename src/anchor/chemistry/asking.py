"""What a structure prior is asked for.

Charge is tested on the composition that is realised. A proposed cell is not always that one: asked for the
reduced formula, the paper's order c → f(c) → x, a prior makes one formula unit; left free, it makes as many
as it likes. H2Si2 is neutral, HSi is not, and HSi may be what is made of it. So before a crystal is made,
what the prior is asked for must be neutral; once it is made, its own cell is tested.
"""

from __future__ import annotations

from typing import Literal

from anchor.chemistry.composition import Compositions

Asking = Literal["cell", "reduced", "free"]
"""The cell as proposed; one formula unit; any number of formula units, by the prior's choice."""


def asked_for(compositions: Compositions, query: Asking) -> Compositions:
    """What the prior is asked for: the cells as proposed, or one formula unit of each."""
    return compositions if query == "cell" else compositions.reduced()

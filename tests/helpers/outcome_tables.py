"""Tables of outcomes as a campaign's judge leaves them, without a potential."""

from __future__ import annotations

import numpy as np

from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.outcomes.checks import Checks
from anchor.outcomes.table import Outcomes
from anchor.reference.reference import load_reference
from anchor.search.realise import Realised


def judged(crystals: Crystals, config: Config, *, above_hull: float = 0.1) -> Realised:
    """Every crystal relaxed to itself and lies `above_hull` eV/atom above the hull."""
    n = len(crystals)
    table = Outcomes.of(crystals).with_columns(
        status=["measured"] * n,
        energy_ev=np.full(n, -1.0),
        energy_above_hull_ev_per_atom=np.full(n, above_hull),
    )
    table, embeddings = Checks.from_config(config, load_reference())(table)
    return Realised(table, crystals, embeddings)

"""The fixed 38-dimensional descriptor of an element (eq:element-feat)."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import VOCABULARY

N_PERIODS, N_GROUPS = 7, 18
BLOCKS = "spdf"
CAPACITY = np.array([2, 6, 10, 14])
"""Electrons that a filled s, p, d, f subshell holds."""

FEATURE_NAMES: tuple[str, ...] = (
    *(f"period_{n}" for n in range(1, N_PERIODS + 1)),
    *(f"group_{n}" for n in range(1, N_GROUPS + 1)),
    *(f"block_{block}" for block in BLOCKS),
    *(f"valence_{block}" for block in BLOCKS),
    "electronegativity",
    "atomic_radius",
    "oxidation_min",
    "oxidation_max",
    "oxidation_mean",
)
"""What each of the 38 columns is."""


@cache
def element_features() -> NDArray[np.float32]:
    """Descriptor f_e of each vocabulary element (eq:element-feat), read-only.  # [84, 38]

    Columns: one-hot period (7), group (18; lanthanides and actinides are group 3 as in pymatgen), block (4);
    electrons beyond the noble-gas core in s, p, d, f over each subshell's capacity (4); Pauling
    electronegativity, atomic radius, and minimum, maximum and mean of the common oxidation states, each
    scaled to [0, 1] over the vocabulary (5).
    """
    from pymatgen.core import Element

    elements = [Element(symbol) for symbol in VOCABULARY]
    scalars = np.array(
        [
            [
                element.X,
                float(element.atomic_radius),
                min(element.common_oxidation_states),
                max(element.common_oxidation_states),
                np.mean(element.common_oxidation_states),
            ]
            for element in elements
        ]
    )  # [84, 5]
    features = np.concatenate(
        [
            np.eye(N_PERIODS)[[element.row - 1 for element in elements]],
            np.eye(N_GROUPS)[[element.group - 1 for element in elements]],
            np.eye(len(BLOCKS))[[BLOCKS.index(element.block) for element in elements]],
            np.array([valence_electrons(element.electronic_structure) for element in elements]) / CAPACITY,
            (scalars - scalars.min(axis=0)) / np.ptp(scalars, axis=0),
        ],
        axis=1,
    ).astype(np.float32)
    features.setflags(write=False)
    return features


def valence_electrons(configuration: str) -> list[int]:
    """Electrons in s, p, d, f beyond the core: '[Ar].3d6.4s2' -> [2, 0, 6, 0]."""
    electrons = dict.fromkeys(BLOCKS, 0)
    for subshell, n in re.findall(r"\d([spdf])(\d+)", configuration):
        electrons[subshell] += int(n)
    return list(electrons.values())

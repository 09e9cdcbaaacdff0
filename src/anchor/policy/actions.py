"""The policy's form of compositions: rectangles of vocabulary indices and counts, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBERS, SYMBOLS
from anchor.errors import InputError

_INDEX = np.full(len(SYMBOLS), -2)  # vocabulary index by atomic number; -1 is no element, -2 another one
_INDEX[NUMBERS] = np.arange(len(NUMBERS))
_INDEX[0] = -1


def to_actions(compositions: Compositions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Vocabulary indices, -1 after the last, and atoms of each, 0 after the last.  # two [n, 4]

    Raises:
        InputError: More than four elements, or one that is not in the vocabulary.
    """
    numbers, counts = compositions.padded(MAX_ELEMENTS)
    elements = _INDEX[numbers]
    if (outside := elements < -1).any():
        row = int(outside.any(axis=1).argmax())
        symbol = SYMBOLS[numbers[row][outside[row]][0]]
        raise InputError(f"{compositions[row]} has {symbol}, which is not one of the 84 elements")
    return elements, counts


def from_actions(elements: NDArray[np.int64], counts: NDArray[np.int64]) -> Compositions:
    """Inverse of `to_actions`."""
    return Compositions.from_padded(np.where(elements >= 0, NUMBERS[elements], 0), counts)

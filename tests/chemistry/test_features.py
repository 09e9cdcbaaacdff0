import numpy as np
import pytest
from pymatgen.core import Element

from anchor.chemistry.elements import INDEX, VOCABULARY
from anchor.chemistry.features import BLOCKS, FEATURE_NAMES, element_features, valence_electrons


def test_shape_and_names() -> None:
    features = element_features()
    assert features.shape == (84, 38)
    assert features.dtype == np.float32
    assert len(FEATURE_NAMES) == 38
    assert not features.flags.writeable
    assert len(np.unique(features, axis=0)) == 84  # the descriptor tells every two elements apart


def test_one_hot_parts_name_the_place_in_the_table() -> None:
    for row, symbol in zip(element_features(), VOCABULARY, strict=True):
        element = Element(symbol)
        assert np.flatnonzero(row[:7]).tolist() == [element.row - 1]
        assert np.flatnonzero(row[7:25]).tolist() == [element.group - 1]
        assert np.flatnonzero(row[25:29]).tolist() == [BLOCKS.index(element.block)]


def test_occupancies_hold_every_electron_outside_the_core() -> None:
    cores = np.array([0, 2, 10, 18, 36, 54, 86])
    for row, symbol in zip(element_features(), VOCABULARY, strict=True):
        element = Element(symbol)
        electrons = row[29:33] * [2, 6, 10, 14]
        assert electrons.sum() == pytest.approx(element.Z - cores[element.row - 1])
    assert valence_electrons("[Ar].3d6.4s2") == [2, 0, 6, 0]
    assert element_features()[INDEX["Ce"], 29:33] == pytest.approx([1, 0, 0.1, 1 / 14])


def test_scalars_span_zero_to_one() -> None:
    scalars = element_features()[:, 33:]
    assert scalars.min(axis=0).tolist() == [0] * 5
    assert scalars.max(axis=0).tolist() == [1] * 5
    assert VOCABULARY[scalars[:, 0].argmax()] == "F"
    assert VOCABULARY[scalars[:, 0].argmin()] == "Cs"
    assert VOCABULARY[scalars[:, 1].argmin()] == "H"
    # Fe has the common states +2 and +3
    states = [Element(s).common_oxidation_states for s in VOCABULARY]
    low = min(min(s) for s in states), max(min(s) for s in states)
    high = min(max(s) for s in states), max(max(s) for s in states)
    assert scalars[INDEX["Fe"], 2] == pytest.approx((2 - low[0]) / (low[1] - low[0]))
    assert scalars[INDEX["Fe"], 3] == pytest.approx((3 - high[0]) / (high[1] - high[0]))

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import INDEX
from anchor.chemistry.spaces import sample_random
from anchor.errors import InputError
from anchor.policy.actions import from_actions, to_actions


def test_actions_are_vocabulary_indices_in_the_order_drawn() -> None:
    elements, counts = to_actions(Compositions.from_list(["O4SiFeLi2", "Cl2Na2", "Pu3"]))
    assert elements.tolist() == [
        [INDEX["O"], INDEX["Si"], INDEX["Fe"], INDEX["Li"]],
        [INDEX["Cl"], INDEX["Na"], -1, -1],
        [83, -1, -1, -1],
    ]
    assert counts.tolist() == [[4, 1, 1, 2], [2, 2, 0, 0], [3, 0, 0, 0]]


def test_there_and_back() -> None:
    batch = sample_random(500, np.random.default_rng(0))
    assert from_actions(*to_actions(batch)).cells == batch.cells
    assert len(from_actions(*to_actions(batch[:0]))) == 0


@pytest.mark.parametrize(("cell", "message"), [("LiNaKRbCs", "has 5 elements"), ("XeF2", "XeF2 has Xe")])
def test_what_is_no_action_is_refused(cell: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        to_actions(Compositions.from_list(["NaCl", cell]))

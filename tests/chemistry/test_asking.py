import pytest

from anchor.chemistry.asking import Asking, asked_for
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions

CELLS = Compositions.from_list(["As3Te3Li3", "Na2Cl2", "H2Si2", "HSi", "Mg3Ca6"])
UNITS = ["AsTeLi", "NaCl", "HSi", "HSi", "MgCa2"]


@pytest.mark.parametrize(
    ("query", "asked", "neutral"),
    [
        ("cell", ["As3Te3Li3", "Na2Cl2", "H2Si2", "HSi", "Mg3Ca6"], [True, True, True, False, False]),
        ("reduced", UNITS, [False, True, False, False, False]),
        ("free", UNITS, [False, True, False, False, False]),
    ],
)
def test_charge_is_tested_on_what_is_asked_for(query: Asking, asked: list[str], neutral: list[bool]) -> None:
    assert asked_for(CELLS, query).cells == asked
    assert is_neutral(asked_for(CELLS, query)).tolist() == neutral

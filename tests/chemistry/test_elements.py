import pytest
from pymatgen.core import Element

from anchor.chemistry.elements import INDEX, NUMBER, NUMBERS, SYMBOLS, VOCABULARY, vocabulary_indices
from anchor.errors import InputError


def test_vocabulary_is_everything_up_to_pu_without_noble_gases_and_the_short_lived() -> None:
    left_out = {"He", "Ne", "Ar", "Kr", "Xe", "Po", "At", "Rn", "Fr", "Ra"}
    expected = [Element.from_Z(z).symbol for z in range(1, 95) if Element.from_Z(z).symbol not in left_out]
    assert list(VOCABULARY) == expected
    assert len(VOCABULARY) == 84


def test_numbers_and_symbols_agree_with_pymatgen() -> None:
    assert [Element(symbol).Z for symbol in VOCABULARY] == NUMBERS.tolist()
    assert all(Element.from_Z(z).symbol == SYMBOLS[z] for z in range(1, 119))
    assert all(SYMBOLS[NUMBER[symbol]] == symbol for symbol in SYMBOLS[1:])
    assert [INDEX[symbol] for symbol in VOCABULARY] == list(range(84))


def test_vocabulary_indices_refuse_other_elements() -> None:
    assert vocabulary_indices(["O", "H", "O"]).tolist() == [0, 6]
    with pytest.raises(InputError, match="'Xe' is not in the vocabulary"):
        vocabulary_indices(["O", "Xe"])

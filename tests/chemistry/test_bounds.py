import pytest

from anchor.chemistry.bounds import stoichiometries, why_outside
from anchor.chemistry.composition import parse_formula


@pytest.mark.parametrize("k", [2, 3, 4])
def test_stoichiometries_are_the_coefficients_of_a_polynomial(k: int) -> None:
    # (x + … + x^12)^k, coefficients up to x^20
    counts = {0: 1}
    for _ in range(k):
        extended: dict[int, int] = {}
        for total, ways in counts.items():
            for n in range(1, 13):
                extended[total + n] = extended.get(total + n, 0) + ways
        counts = extended
    table = stoichiometries(k)
    assert len(table) == sum(ways for total, ways in counts.items() if total <= 20)
    assert len({tuple(row) for row in table.tolist()}) == len(table)
    assert (table.min(), table.max(), table.sum(axis=1).max()) == (1, 12, 20)


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("Li2FeSiO4", None),
        ("Fe8O12", None),
        ("Fe", "1 distinct element, not 2 to 4"),
        ("LiNaKRbCs", "5 distinct elements"),
        ("Fe9O12", "21 atoms"),
        ("NaH13", "13 atoms of H"),
        ("XeF2", "Xe is not in the vocabulary"),
    ],
)
def test_why_outside(formula: str, reason: str | None) -> None:
    answer = why_outside(parse_formula(formula))
    assert answer is None if reason is None else reason in str(answer)

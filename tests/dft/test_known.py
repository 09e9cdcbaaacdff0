"""The list of known reactions that was drawn before anything was calculated."""

import json
from collections import Counter
from pathlib import Path

import pytest

from anchor.dft.known import LARGEST, QUOTAS, Reaction, chemistry, crystal_row
from anchor.hull.phases import composition_matrix
from anchor.reference.reference import load_reference

LIST = Path(__file__).parents[2] / "benchmarks" / "dft-reactions.json"


@pytest.fixture(scope="module")
def reactions() -> list[Reaction]:
    rows = json.loads(LIST.read_text())["reactions"]
    return [Reaction.from_dict({k: v for k, v in row.items() if k != "estimated_cpu_s"}) for row in rows]


def test_the_list_is_what_the_rule_says(reactions: list[Reaction]) -> None:
    reference = load_reference()
    assert Counter(r.chemistry for r in reactions) == QUOTAS
    assert len({r.formula for r in reactions}) == 40
    for reaction in reactions:
        amounts = composition_matrix([reaction.formula, *(p[0] for p in reaction.products)])
        fractions = amounts / amounts.sum(axis=1, keepdims=True)
        mixed = sum(p[2] * row for p, row in zip(reaction.products, fractions[1:], strict=True))
        assert mixed == pytest.approx(fractions[0], abs=1e-5)  # it balances
        assert reaction.crystals(reference).counts.max() <= LARGEST
        rows = [crystal_row(reference, i) for i in (reaction.crystal, *(p[1] for p in reaction.products))]
        energies = reference.formation_energy[rows].tolist()
        assert reaction.energy(energies) == pytest.approx(reaction.oqmd, abs=1e-5)
        assert reaction.oqmd < 0
        assert (amounts[1:] > 0).sum(axis=1).min() > 1  # no element among the products


@pytest.mark.parametrize(
    ("elements", "name"),
    [("K Y Se", "chalcogenide"), ("Fe B W", "magnetic"), ("Na Cl O", "oxide"), ("Ce Si Au", "lanthanide")],
)
def test_chemistry(elements: str, name: str) -> None:
    assert chemistry(frozenset(elements.split())) == name

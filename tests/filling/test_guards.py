"""Each guard refuses what it is for, and nothing else."""

import numpy as np
import pytest

from anchor.filling.guards import ABOVE_HULL, JOINS, Guards, asks_second, verdicts, volume_ratio
from anchor.hull.energies import load_energies
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference

GOOD = {
    "energy": -4.0,
    "ended": True,
    "bond_ratio": 1.2,
    "volume_ok": True,
    "above_oqmd": -0.3,
    "above_mp": -0.1,
    "strict_oqmd": -0.3,
    "strict_mp": -0.1,
    "second_oqmd": -0.28,
    "second_mp": -0.12,
}


def row(**changes: float | bool) -> dict[str, np.ndarray]:
    return {name: np.array([value]) for name, value in {**GOOD, **changes}.items()}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, JOINS),
        ({"energy": np.nan, "above_oqmd": np.nan, "above_mp": np.nan}, "no energy"),
        ({"above_oqmd": 0.06, "above_mp": 0.2, "second_mp": np.nan}, ABOVE_HULL),
        ({"above_oqmd": 0.04, "strict_oqmd": 0.04, "above_mp": 0.2, "strict_mp": 0.2}, JOINS),
        ({"ended": False}, "not relaxed"),
        ({"bond_ratio": 0.99}, "a bond too short"),
        ({"volume_ok": False}, "a volume that its elements do not take"),
        ({"strict_oqmd": -0.1}, "low because the potential's elements are"),  # two thirds of the depth
        ({"strict_oqmd": -0.2}, JOINS),  # one third
        ({"second_oqmd": -0.24}, "sevennet-0 does not agree"),
        ({"second_oqmd": -0.6}, JOINS),  # lower is no objection
        ({"second_oqmd": np.nan}, "sevennet-0 does not agree"),
        ({"above_oqmd": -0.04, "strict_oqmd": -0.04, "above_mp": 0.3, "second_oqmd": np.nan}, JOINS),
    ],
)
def test_verdicts(changes: dict[str, float | bool], verdict: str) -> None:
    assert verdicts(row(**changes), second="sevennet-0") == [verdict]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, True),
        ({"above_oqmd": -0.04, "above_mp": -0.04}, False),
        ({"above_oqmd": -0.04, "above_mp": -0.06, "strict_oqmd": -0.04, "strict_mp": -0.06}, True),
        ({"bond_ratio": 0.5}, False),
        ({"strict_oqmd": 0.0}, False),
    ],
)
def test_a_second_potential_is_asked_only_where_it_decides(
    changes: dict[str, float | bool], asked: bool
) -> None:
    assert asks_second(row(**changes)).tolist() == [asked]


@pytest.fixture(scope="module")
def guards() -> Guards:
    reference = load_reference()
    energies = load_energies("mattersim-1m", reference.crystals)
    return Guards(reference, energies, load_hull("mattersim-1m", "unfilled"))


def test_elements_of_the_potential_lower_the_strict_hull_where_they_are_lower(guards: Guards) -> None:
    asked = ["KCl6", "K3YSe3", "Cl2"]
    plain = guards.hull.databases["mp"].union.hull_energy(asked)
    strict = guards.strict["mp"].hull_energy(asked)
    assert (strict <= plain + 1e-9).all()
    assert strict[2] < plain[2] - 0.2  # Cl2 itself
    assert strict[0] < plain[0] - 0.1  # mostly Cl2 beside KCl
    assert strict[1] == pytest.approx(plain[1], abs=1e-6)


def test_reference_crystals_have_allowed_volumes_and_swollen_ones_do_not(guards: Guards) -> None:
    crystals = guards.reference.crystals[np.arange(0, len(guards.reference.crystals), 7)]
    assert guards.volume_ok(crystals).mean() > 0.995
    swollen = crystals.replace(lattice=crystals.lattice * 1.6)
    assert guards.volume_ok(swollen).mean() < 0.2
    assert np.allclose(volume_ratio(swollen), 1.6**3 * volume_ratio(crystals))

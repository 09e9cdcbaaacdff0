"""Level 3: two of three decide, who cannot answer is named."""

import json
from collections.abc import Callable

import pytest

from anchor.verify.claims import Claim, Context
from anchor.verify.other_potentials import Answer, OtherPotentials, judged, matching

Make = Callable[..., Claim]


@pytest.mark.parametrize(
    ("above", "limit", "passed"),
    [
        ((-0.1, -0.2, 0.01), 0.0, True),
        ((-0.1, 0.02, 0.3), 0.0, True),  # two of three, one of them within the tolerance
        ((-0.1, 0.05, 0.3), 0.0, False),
        ((0.11, 0.12, 0.3), 0.1, True),
        ((-0.1, 0.02), 0.0, True),
        ((-0.1, 0.2), 0.0, False),  # of two both
        ((-0.1,), 0.0, None),
        ((), 0.0, None),
    ],
)
def test_votes(claim_at: Make, above: tuple[float, ...], limit: float, passed: bool | None) -> None:
    answers = {f"potential {i}": Answer(value, True) for i, value in enumerate(above)}
    answers["absent"] = Answer(fault="not available: no weights")
    verdict = judged(claim_at("KYSe2", -0.05, limit=limit), answers)
    assert verdict.passed is passed
    assert "absent: not available: no weights" in verdict.reason
    assert verdict.evidence["agree"][1] == len(above)
    json.dumps(verdict.evidence, allow_nan=False)


def test_another_crystal_is_said(claim_at: Make) -> None:
    answers = {"one": Answer(-0.1, True), "two": Answer(-0.1, False)}
    assert "another crystal under two" in judged(claim_at("KYSe2", -0.05), answers).reason


def test_potentials_that_are_not_here_are_named(mattersim: Context, claim_at: Make) -> None:
    level = OtherPotentials(("mattersim-1m", "mace"))  # its own potential is no other one
    (verdict,) = level.attack([claim_at("KYSe2", -0.05)], mattersim)
    assert verdict.passed is None
    assert list(verdict.evidence["no_answer"]) == ["mace"]
    assert "mace" in level.settings(mattersim)["potentials"]


def test_real_ones_find_rock_salt_on_their_hulls(mattersim: Context, claim_at: Make) -> None:
    claim = claim_at("NaCl", 0.0, limit=0.1)
    (verdict,) = OtherPotentials(("sevennet-0", "chgnet")).attack([claim], mattersim)
    assert verdict.passed, verdict.reason
    assert all(abs(value) < 0.05 for value in verdict.evidence["above_ev_per_atom"].values())
    assert matching(claim.crystal, claim.crystal)
    assert not matching(claim.crystal, claim_at("KYSe2", 0.0).crystal)

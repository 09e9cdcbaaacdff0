"""Splits: stable, by formula, in the promised shares."""

from __future__ import annotations

import hashlib

import numpy as np

from anchor.reference.splits import SPLITS, split_of, splits_of


def test_values_never_change() -> None:
    """Priors are trained on these splits: a change would leak test formulas into training."""
    formulas = ["NaCl", "LiFePO4", "SiO2", "MgO", "BaTiO3", "H2O", "CsPbI3", "Al2O3"]
    expected = []
    for formula in formulas:
        position = int(hashlib.sha256(formula.encode()).hexdigest()[:16], 16) / 16**16
        expected.append("train" if position < 0.8 else "val" if position < 0.9 else "test")
    assert splits_of(formulas).tolist() == expected
    assert [split_of(f) for f in ("NaCl", "SiO2")] == [splits_of(["SiO2", "NaCl"])[i] for i in (1, 0)]


def test_shares() -> None:
    splits = splits_of(f"X{i}" for i in range(20_000))
    shares = [np.mean(splits == name) for name in SPLITS]
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.01)

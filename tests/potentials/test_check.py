"""The check passes real potentials and catches wrong ones."""

from __future__ import annotations

import pytest

from anchor.potentials.base import Potential
from anchor.potentials.check import check_potential


class Skewed(Potential):
    """A real potential with one of its outputs spoilt."""

    def __init__(self, inner: Potential, spoil: str, factor: float) -> None:
        super().__init__(
            name="skewed",
            elements=inner.elements,
            energies_corrected=False,
            checkpoint_hash="",
            dtype=inner.dtype,
        )
        self.inner, self.spoil, self.factor = inner, spoil, factor

    def compute(self, state):
        result = self.inner.compute(state)
        return result | {self.spoil: result[self.spoil] * self.factor}


@pytest.mark.parametrize(
    ("spoil", "factor"), [("forces", -1.0), ("forces", 1.01), ("stress", -1.0), ("stress", 1.01)]
)
def test_wrong_slopes_are_caught(load, spoil, factor):
    checks = check_potential(Skewed(load("mattersim-1m", "float64"), spoil, factor))
    assert not all(check.passed for check in checks)


def test_energies_that_depend_on_the_batch_are_caught(load):
    class Crowded(Skewed):
        def compute(self, state):
            result = self.inner.compute(state)
            return result | {"energy": result["energy"] + 1e-3 * state.n_systems}

    checks = check_potential(Crowded(load("mattersim-1m", "float64"), "energy", 1.0))
    assert all(check.batch_error_ev_per_atom > 1e-4 for check in checks)
    assert not any(check.passed for check in checks)

"""What a belief expects of the stability score, against numerical integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from anchor.reward.stability import expected_stability, stability_score


@pytest.mark.parametrize("width", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("mean", [-0.2, 0.0, 0.04, 0.35])
def test_it_is_the_mean_of_the_score(mean: float, width: float) -> None:
    deviation = 0.07
    found = expected_stability(np.array([mean]), np.array([deviation]), width)

    def weighted(energy: float) -> float:
        return float(stability_score(energy, width) * norm.pdf(energy, mean, deviation))

    expected = quad(weighted, mean - 1, mean + 1, points=[0.0, width], limit=200)[0]
    assert found == pytest.approx([expected], abs=1e-7)


def test_it_never_stops_falling() -> None:
    """Below the hull, too: a surer find is worth more."""
    energies = np.linspace(-0.3, 0.4, 50)
    found = expected_stability(energies, np.full(50, 0.08), 0.1)
    assert (np.diff(found) < 0).all()
    assert ((found >= 0) & (found <= 1)).all()

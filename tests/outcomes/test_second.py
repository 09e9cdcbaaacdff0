"""A second potential has a say where the first one says metastable, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import bulk
from hypothesis import given
from hypothesis import strategies as st

from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.phases import Phases
from anchor.outcomes.columns import ABOVE, above
from anchor.outcomes.judge import Judge
from anchor.outcomes.second import SecondOpinion, cautious
from anchor.potentials import load_potential
from anchor.relax.parallel import Relaxer
from anchor.search.environment import load_second


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 3))
def test_caution_never_helps_a_crystal_beyond_the_mean(one: float, other: float, caution: float) -> None:
    a, b = np.array([one]), np.array([other])
    both = cautious(a, b, caution)
    assert both == cautious(b, a, caution)
    assert both >= (one + other) / 2
    assert cautious(a, b, 0.5) == pytest.approx(max(one, other))
    assert cautious(a, a, caution) == pytest.approx(one)


def hull_of(name: str, energy: float) -> tuple[Relaxer, AlexMPHull]:
    potential = load_potential(name)
    phases = Phases.from_formulas(["Na", "Cl", "NaCl"], [-1.3, -1.8, energy])
    return Relaxer(potential), AlexMPHull(phases, potential)


def test_it_is_asked_only_about_what_the_first_one_likes() -> None:
    """Rock salt lies 0.05 above the first hull and higher above the second; at 1.5 times its volume, far."""
    crystals = Crystals.from_atoms([bulk("NaCl", "rocksalt", a=5.7), bulk("NaCl", "rocksalt", a=6.6)])
    energy = float(load_potential("chgnet").evaluate(crystals[0]).energy[0]) / 2
    alone = Judge(*hull_of("chgnet", energy - 0.05), None)
    other = hull_of("mattersim-1m", -3.9)
    both = replace(alone, second=SecondOpinion(*other, caution=1.0))
    before, after, second = alone(crystals), both(crystals), Judge(*other, None)(crystals).numbers(ABOVE)[0]
    assert before.numbers(ABOVE)[0] == pytest.approx(0.05, abs=1e-4)
    assert after.numbers(above("mattersim-1m"))[0] == pytest.approx(second, abs=1e-5)
    assert second > 0.1
    assert after.numbers(ABOVE)[0] == pytest.approx((0.05 + second) / 2 + (second - 0.05), abs=1e-3)
    assert before.numbers(ABOVE)[1] > 0.1
    assert after.numbers(ABOVE)[1] == before.numbers(ABOVE)[1]
    assert np.isnan(after.numbers(above("mattersim-1m"))[1])


def test_a_potential_is_no_second_opinion_on_itself() -> None:
    config = load_config(overrides=["relax.second=mattersim-1m"]).config
    with pytest.raises(InputError, match="training potential itself"):
        load_second(config, Relaxer(load_potential("mattersim-1m")))

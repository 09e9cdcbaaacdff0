"""Orders as files: what was made is found again, and only where nothing that decides it has changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anchor.config import ActionSpace
from anchor.errors import Notice
from anchor.policy.constraints import Limits
from anchor.screening import order
from anchor.screening.estimate import load_estimate
from anchor.screening.evidence import hull_energies
from anchor.screening.order import default_limits, load_order, order_identity, save_order, screened_order


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(order, "cache_dir", lambda: tmp_path)
    return tmp_path


def limits(**wishes: object) -> Limits:
    return Limits.from_config(ActionSpace(elements=("Li", "Mg", "O", "F"), max_atoms=8, **wishes))


def test_the_second_time_nothing_is_ranked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = screened_order(limits(), 10)
    assert len(list(cache.rglob("*.npz"))) == 1

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("ranked again")

    monkeypatch.setattr(order, "rank", refuse)
    second = screened_order(limits(), 10)
    assert second.compositions.cells == first.compositions.cells
    assert second.metastable == pytest.approx(first.metastable, abs=1e-9)
    assert second.stable == pytest.approx(first.stable, abs=1e-9)
    assert second.above_hull == pytest.approx(first.above_hull, abs=5.1e-4)
    assert (second.listed, second.exhausted) == (first.listed, first.exhausted)
    with pytest.raises(AssertionError, match="ranked again"):
        screened_order(limits(), 10, include_known=True)


def test_identity_tells_limits_apart() -> None:
    wishes = [{}, {"k": (2,)}, {"must_contain": ("O",)}, {"max_counts": {"O": 4}}, {"min_atoms": 4}]
    assert len({order_identity(limits(**w)) for w in wishes}) == len(wishes)
    assert order_identity(limits()) == order_identity(limits())


def test_a_file_of_another_identity_is_not_taken(cache: Path) -> None:
    made = screened_order(limits(), 5)
    save_order(cache / "other.npz", made, {"identity": "abc"})
    assert load_order(cache / "other.npz", "abc") is not None
    assert load_order(cache / "other.npz", "abd") is None
    assert load_order(cache / "missing.npz", "abc") is None


@pytest.mark.parametrize("harm", ["no card", "no counts", "no arrays"])
def test_a_damaged_file_of_the_cache_is_made_again(cache: Path, harm: str) -> None:
    first = screened_order(limits(), 5)
    (arrays,) = cache.rglob("*.npz")
    card = arrays.with_suffix(".json")
    if harm == "no card":
        card.write_bytes(card.read_bytes()[:-9])
    elif harm == "no counts":
        card.write_text(card.read_text().replace('"known"', '"knoxn"'))
    else:
        arrays.write_bytes(arrays.read_bytes()[:-99])
    order._read.cache_clear()
    with pytest.warns(Notice, match="made again, because"):
        again = screened_order(limits(), 5)
    assert again.compositions.cells == first.compositions.cells
    order._read.cache_clear()
    assert load_order(arrays, order_identity(limits())) is not None


def test_the_shipped_order_is_sound() -> None:
    card = json.loads(order.SHIPPED.with_suffix(".json").read_text())
    found = load_order(order.SHIPPED, card["identity"])
    assert found is not None
    assert len(found) == card["places"] >= 65_536
    assert len(set(found.compositions.formulas)) == len(found)
    assert (found.stable <= found.metastable).all()
    assert found.metastable[:1000].mean() > found.metastable[-1000:].mean()
    assert set(np.unique(found.compositions.k)) == {2, 3, 4}
    assert order.SHIPPED.stat().st_size < 1_200_000
    assert found.hull_energy is not None
    some = slice(None, None, len(found) // 40)
    again = hull_energies(found.compositions[some], load_estimate().hulls)
    assert found.hull_energy[some] == pytest.approx(again, abs=1e-6)


def test_the_shipped_order_is_that_of_the_shipped_estimate() -> None:
    """Whoever changes the estimate or a list makes it again: python -m anchor.screening.order"""
    card = json.loads(order.SHIPPED.with_suffix(".json").read_text())
    assert card["identity"] == order_identity(default_limits())

"""What outcomes teach: trees that hear labels and outcomes, and what they must never do."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from anchor.chemistry.composition import Compositions
from anchor.chemistry.formula import parse_amounts
from anchor.screening import learning
from anchor.screening.chances import load_labels
from anchor.screening.learning import N_EVIDENCE, descriptors, learn, lesson, portraits
from anchor.search.policies import load_trained

NOTHING = np.zeros(0)


@pytest.fixture(scope="module")
def formulas() -> Compositions:
    return load_trained("default").draw(400, seed=5)


@pytest.fixture(scope="module")
def seen(formulas: Compositions) -> learning.Array:
    return portraits(formulas)


def test_labels_are_heard_before_any_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taught half of the labels, the trees rank the other half."""
    labels = load_labels()
    whole = portraits(labels.compositions)
    half = np.arange(len(labels)) % 2 == 0
    monkeypatch.setattr(learning, "_labelled", lambda: (whole[half], labels.above_hull[half]))
    near, on = learn(whole[:0], NOTHING).chances(whole[~half])
    assert roc_auc_score(labels.metastable[~half], near) > 0.75
    assert roc_auc_score(labels.stable[~half], on) > 0.75
    assert near.sum() == pytest.approx(labels.metastable[~half].sum(), rel=0.15)  # chances, not scores


def test_outcomes_move_formulas_alike_and_not_strangers() -> None:
    formulas = load_trained("default").draw(3000, seed=6)
    seen = portraits(formulas)
    selenides, fluorides = (
        np.flatnonzero([symbol in parse_amounts(f) for f in formulas.formulas]) for symbol in ("Se", "F")
    )
    told, unheard = selenides[::2], selenides[1::2]
    before = learn(seen[:0], NOTHING).chances(seen)[1]
    after = learn(seen[told], np.full(len(told), 0.3)).chances(seen)[1]
    assert after[unheard].mean() < 0.5 * before[unheard].mean()
    assert after[fluorides].mean() > 0.8 * before[fluorides].mean()


def test_failures_count_as_failures_and_faults_as_nothing(seen: learning.Array) -> None:
    failed = learn(seen[:200], np.full(200, np.nan)).chances(seen[:200])[0]
    nothing = learn(seen[:0], NOTHING).chances(seen)
    assert failed.mean() < 0.3 * nothing[0][:200].mean()
    assert np.array_equal(learn(seen[:200], np.full(200, np.inf)).chances(seen), nothing)


def test_threads_do_not_change_a_bit(seen: learning.Array) -> None:
    """Against the forest's own answer in one thread, too."""
    one, three = (learn(seen[:50], np.zeros(50), threads=threads) for threads in (1, 3))
    assert np.array_equal(one.chances(seen), three.chances(seen))
    assert np.array_equal(np.stack(one.chances(seen), axis=1), one.trees.predict(seen))


def test_near_is_never_rarer_than_on_and_a_seed_is_a_forest(seen: learning.Array) -> None:
    near, on = learn(seen[:0], NOTHING, seed=3).chances(seen)
    assert (on <= near + 1e-12).all()
    assert np.array_equal(learn(seen[:0], NOTHING, seed=3).chances(seen)[1], on)
    assert not np.array_equal(learn(seen[:0], NOTHING, seed=4).chances(seen)[1], on)


def test_lessons_come_after_every_block_and_later_in_larger_portions() -> None:
    sizes = [lesson(n) for n in range(20_000)]
    assert sizes[127] == 0
    assert sizes[128:4096:128] == list(range(128, 4096, 128))
    assert all(n - size < max(128, n / 16) for n, size in enumerate(sizes))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) < 120


def test_the_size_of_the_cell_and_the_order_of_elements_do_not_matter() -> None:
    one, other = (descriptors(Compositions.from_list([f])) for f in ("KYSe2", "Se4Y2K2"))
    assert np.array_equal(one, other)


def test_evidence_is_the_end_of_a_portrait(formulas: Compositions, seen: learning.Array) -> None:
    assert np.array_equal(seen[:, :-N_EVIDENCE], descriptors(formulas))

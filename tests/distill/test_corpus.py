"""The corpus: each rule drops what it should, no tested composition is left, the same seed draws the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_ledger import caesium_chloride, candidate, small_ledger

from anchor.distill.corpus import Corpus, Rules, build_corpus
from anchor.errors import InputError
from anchor.models.data import held_out_formulas, reference_split
from anchor.search.ledger import Ledger

PLENTY = Rules(held_out=4, size=1000)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """20 new ones (compounds of Pm, which has hardly any), and one for each rule to drop."""
    new = [candidate(i, caesium_chloride(61, 20 + i), above=0.02 * i) for i in range(20)]
    train, test = (reference_split(split) for split in ("train", "test"))
    small = [crystals[np.flatnonzero(crystals.counts <= 8)[:1]] for crystals in (train, test)]
    rest = [
        candidate(20, caesium_chloride(61, 20, 4.02)),  # a duplicate of the first
        candidate(21, caesium_chloride(61, 53), valid=False),
        candidate(22, small[0]),  # known
        candidate(23, caesium_chloride(*_forbidden_pair())),  # another structure of a test formula
    ]
    return small_ledger(tmp_path_factory.mktemp("ledger"), [*new, *rest])


def _forbidden_pair() -> tuple[int, int]:
    """Elements of a 1:1 formula of the reference's test split, in a structure that it has not."""
    test = reference_split("test")
    for crystal in test[np.flatnonzero(test.counts == 8)]:
        numbers, counts = np.unique(crystal.numbers, return_counts=True)
        if counts.tolist() == [4, 4] and crystal.formulas[0] in held_out_formulas():
            return int(numbers[0]), int(numbers[1])
    raise AssertionError


def formulas(corpus: Corpus) -> set[str]:
    return set(corpus.relaxed.formulas)


def test_every_rule_is_counted(ledger: Ledger) -> None:
    corpus = build_corpus([ledger], PLENTY)
    counts = list(corpus.counts.values())
    assert counts[:3] == [24, 23, 23], "logged, valid, small enough"
    assert counts[3] == 22, "without the duplicate"
    assert counts[4] == 21, "without the known one"
    assert counts[-1] == len(corpus.relaxed) == len(corpus.generated)
    assert "fewer than the 1000" in corpus.note


def test_no_composition_of_any_test_is_trained_on(ledger: Ledger) -> None:
    corpus = build_corpus([ledger], PLENTY)
    assert len(corpus.held_out) == 4
    assert not formulas(corpus) & set(corpus.held_out.formulas)
    assert not formulas(corpus) & held_out_formulas()
    assert len(formulas(corpus)) == len(corpus.relaxed), "and none twice"


def test_cells_as_generated_are_those_of_the_same_candidates(ledger: Ledger) -> None:
    corpus = build_corpus([ledger], PLENTY)
    np.testing.assert_allclose(corpus.generated.lattice, 1.05 * corpus.relaxed.lattice)
    assert corpus.generated.formulas == corpus.relaxed.formulas


def test_same_seed_same_corpus(ledger: Ledger) -> None:
    rules = Rules(held_out=4, size=8)
    one, again = build_corpus([ledger], rules), build_corpus([ledger], rules)
    assert one.relaxed.hash == again.relaxed.hash
    assert one.held_out.hash == again.held_out.hash
    assert len(one.relaxed) == 8
    assert one.note == ""
    other = build_corpus([ledger], Rules(held_out=4, size=8, seed=1))
    assert set(other.held_out.formulas) != set(one.held_out.formulas)
    assert formulas(other) != formulas(one)


def test_low_ones_are_examined_on_the_same_compositions(ledger: Ledger) -> None:
    every, low = (
        build_corpus([ledger], Rules(kind, held_out=4, size=1000, below=0.1)) for kind in ("all", "low")
    )
    assert low.held_out.hash == every.held_out.hash
    assert formulas(low) < formulas(every)
    allowed = {caesium_chloride(61, 20 + i).formulas[0] for i in range(6)}
    assert formulas(low) <= allowed


def test_later_turns_keep_the_first_ones_compositions(ledger: Ledger, tmp_path: Path) -> None:
    first = build_corpus([ledger], PLENTY)
    kept = sorted(set(first.held_out.formulas))
    more = small_ledger(tmp_path, [candidate(0, caesium_chloride(61, 70 + i)) for i in range(1)])
    second = build_corpus([ledger, more], PLENTY, held_out=kept)
    assert second.held_out.hash == first.held_out.hash
    assert formulas(second) == formulas(first) | {caesium_chloride(61, 70).formulas[0]}


def test_too_little_is_refused_with_the_way_out(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="leave too little"):
        build_corpus([ledger], Rules(held_out=15))
    with pytest.raises(InputError, match="nothing of the campaign is left"):
        build_corpus([ledger], Rules("verified", held_out=4))

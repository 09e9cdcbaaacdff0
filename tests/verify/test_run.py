"""The runner: cheapest first, only survivors go on, nothing is asked twice, and a stop loses one chunk."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from anchor.errors import InputError
from anchor.search.ledger import Ledger
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.levels import LEVELS, load_levels
from anchor.verify.retention import in_words, retention
from anchor.verify.run import Record, verify
from anchor.verify.stores import FolderStore, LedgerStore, Store

Make = Callable[..., Claim]
FORMULAS = ("KYSe2", "LiF", "NaCl", "KBr")
OLD = Path(__file__).parents[1] / "files" / "ledger-schema-1.db"


@dataclass
class Refuses:
    """A level that refuses some formulas, and may be stopped."""

    number: int
    formulas: Sequence[str] = ()
    chunk: int = 2
    version: int = 1
    stop_at: str = ""
    name: str = "refuses"
    asked: list[str] = field(default_factory=list)

    def settings(self, _context: Context) -> dict[str, Any]:
        return {"version": self.version}

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        if any(claim.formula == self.stop_at for claim in claims):
            raise KeyboardInterrupt
        self.asked += [claim.formula for claim in claims]
        verdicts = []
        for claim in claims:
            lower = None
            if claim.formula == "KYSe2" and self.number == 1:
                lower = context.moved(claim, claim.crystal, claim.energy - 0.01)
            ok = claim.formula not in self.formulas
            verdicts.append(Verdict(claim.id, self.number, ok, f"{claim.energy:.4f}", {"ok": ok}, lower))
        return verdicts


@pytest.fixture
def claims(claim_at: Make) -> list[Claim]:
    return [replace(claim_at(formula, -0.01 * i), id=str(i)) for i, formula in enumerate(FORMULAS)]


@pytest.fixture(params=["ledger", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opened anew on each call."""
    if request.param == "folder":
        return lambda: FolderStore(tmp_path / "verdicts")
    Ledger.create(tmp_path, {}, {}, "now").close()
    return lambda: LedgerStore(Ledger.open(tmp_path))


def summary(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [
        (r.claim.formula, r.level, r.why, r.now.crystal.hash, r.now.energy, dict(r.now.above))
        for r in records
    ]


def test_only_survivors_go_on_as_what_they_became(
    claims: list[Claim], mattersim: Context, store: Callable[[], Store]
) -> None:
    first, second = Refuses(1, ["LiF"]), Refuses(2, ["KBr"])
    records = verify(claims, mattersim, [first, second], store())
    assert first.asked == list(FORMULAS)
    assert second.asked == ["KYSe2", "NaCl", "KBr"]
    assert [record.level for record in records] == [2, 0, 2, 1]
    assert [record.stands for record in records] == [True, False, True, False]
    assert records[0].now.energy == pytest.approx(claims[0].energy - 0.01)
    assert records[0].verdicts[1].reason == f"{claims[0].energy - 0.01:.4f}"  # the heir was attacked
    rows = retention(records, [first, second])
    assert [(r.attacked, r.passed, r.failed, r.replaced) for r in rows] == [(4, 3, 1, 1), (3, 2, 1, 0)]
    assert in_words(records, rows)[0].startswith("2 of 4 claims survive level 2")


def test_nothing_is_asked_twice_unless_it_changed(
    claims: list[Claim], mattersim: Context, store: Callable[[], Store]
) -> None:
    before = verify(claims, mattersim, [Refuses(1, ["LiF"]), Refuses(2)], store())
    again = [Refuses(1, ["LiF"]), Refuses(2), Refuses(3, ["NaCl"])]
    records = verify(claims, mattersim, again, store())
    assert (again[0].asked, again[1].asked) == ([], [])
    assert again[2].asked == ["KYSe2", "NaCl", "KBr"]
    assert summary(verify(claims, mattersim, [Refuses(1), Refuses(2)], store())) == summary(before)
    assert [record.level for record in records] == [3, 0, 2, 3]
    changed = Refuses(1, ["LiF"], version=2)
    verify(claims, mattersim, [changed], store())
    assert changed.asked == list(FORMULAS)
    seeded = Refuses(1, ["LiF"], version=2)
    verify(claims, replace(mattersim, seed=1), [seeded], store())
    assert seeded.asked == list(FORMULAS)


def test_a_stop_loses_one_chunk(
    claims: list[Claim], mattersim: Context, store: Callable[[], Store], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(claims, mattersim, [Refuses(1, stop_at="NaCl")], store())
    rest = Refuses(1)
    records = verify(claims, mattersim, [rest], store())
    assert rest.asked == ["NaCl", "KBr"]
    whole = verify(claims, mattersim, [Refuses(1)], FolderStore(tmp_path / "other"))
    assert summary(records) == summary(whole)


def test_only_the_best_go_beyond_the_first_level(
    claims: list[Claim], mattersim: Context, tmp_path: Path
) -> None:
    first, second, third = Refuses(1, ["KBr"]), Refuses(2), Refuses(3)
    records = verify(claims, mattersim, [first, second, third], FolderStore(tmp_path), most=1)
    assert first.asked == list(FORMULAS)
    assert second.asked == third.asked == ["NaCl"]  # lowest of those that passed
    assert [record.level for record in records] == [1, 1, 3, 0]
    assert records[0].why == ""


def test_chance_chooses_by_the_seed_and_more_hold_the_fewer(
    claims: list[Claim], mattersim: Context, tmp_path: Path
) -> None:
    def gone_on(most: int, seed: int) -> list[str]:
        second, place = Refuses(2), tmp_path / f"{most}-{seed}"
        context = replace(mattersim, seed=seed)
        verify(claims, context, [Refuses(1), second], FolderStore(place), most=most, sample=True)
        return second.asked

    for seed in range(8):
        assert gone_on(3, seed)[:2] == gone_on(2, seed)
    assert len({gone_on(1, seed)[0] for seed in range(8)}) > 1  # not always the lowest


def test_a_ledger_of_before_gets_verdicts_with_the_first(
    claims: list[Claim], mattersim: Context, tmp_path: Path
) -> None:
    Ledger.create(tmp_path, {}, {}, "now").close()
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE verdicts")
        connection.commit()
    before = path.read_bytes()
    ledger = Ledger.open(tmp_path)
    assert ledger.verdict_rows() == []
    assert path.read_bytes() == before  # reading changes nothing
    verify(claims, mattersim, [Refuses(1)], LedgerStore(ledger))
    rows = Ledger.open(tmp_path).verdict_rows()
    assert [(row["candidate"], row["level"]) for row in rows] == [(i, 1) for i in range(4)]
    assert rows[0]["replaced"]["energy_above_hull_ev_per_atom"] == pytest.approx(-0.01)


def test_schema_1_has_no_verdicts_and_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(OLD.read_bytes())
    ledger = Ledger.open(path)
    assert ledger.verdict_rows() == []
    with pytest.raises(InputError, match="schema 1"):
        ledger.store_verdicts([])


def test_levels_are_in_order_and_a_wrong_number_is_refused() -> None:
    assert [level.number for level in load_levels(3)] == [0, 1, 2, 3]
    assert all(make().number == number for number, make in LEVELS.items())
    with pytest.raises(InputError, match="no level 9"):
        load_levels(9)

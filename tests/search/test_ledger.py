"""The ledger: nothing lost, all or nothing, and errors that name the file."""

import os
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.exports.chosen import of_campaign
from anchor.report.entries import campaign_entries
from anchor.report.html import report_html
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal, file_system_type
from anchor.search.tables import candidates
from anchor.selecting import everything, parse

IDENTITY = {"anchor": "0", "reference": "abc"}


def new_ledger(folder: Path) -> Ledger:
    return Ledger.create(folder, {"run": {"seed": 1}}, IDENTITY, "2026-01-01T00:00:00+00:00")


def row(number: int, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(column.name for column in candidates.c)
    required = {
        "id": number, "step": 0, "group_index": 0, "member": number, "formula": "NaCl", "cell": "Na4Cl4",
        "n_elements": 2, "n_atoms": 8, "valid": True, "included": True, "status": "scored", "reason": "",
        "known_in": "mp,oqmd", "own_objectives": {},
    }  # fmt: skip
    return values | required | changes


def step(number: int) -> dict[str, Any]:
    return {"step": number, "structures": 2, "contexts": [], "metrics": {"reward_mean": 0.1}, "seconds": {}}


def test_a_schema_that_is_no_text_is_named(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    database.close()
    good = path.read_bytes()
    assert good.count(b"PRIMARY KEY (step)") == 1
    path.write_bytes(good.replace(b"PRIMARY KEY (step)", b"PRIMARY \xcbEY (step)"))
    with pytest.raises(InputError, match="cannot be read as a ledger"):
        Ledger.open(tmp_path)


def test_a_crystal_survives_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    crystal = Crystals(
        np.array([3]), np.array([11, 17, 94]), rng.normal(size=(3, 3)), rng.normal(size=(1, 3, 3))
    )
    back = decode_crystal(encode_crystal(crystal))
    assert (back.frac == crystal.frac).all()
    assert (back.lattice == crystal.lattice).all()
    assert back.numbers.tolist() == [11, 17, 94]


def test_steps_are_stored_and_read_back(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    assert (ledger.n_steps, ledger.n_candidates, ledger.state()) == (0, 0, None)
    ledger.commit_step(step(0), [row(0, reward=0.1 + 0.2), row(1)], b"state 0", keep=True)
    ledger.commit_step(step(1), [row(2), row(3)], b"state 1", keep=False)
    ledger.close()
    ledger = Ledger.open(tmp_path)
    assert (ledger.n_steps, ledger.n_candidates) == (2, 4)
    assert ledger.state() == b"state 1"
    assert ledger.state("0") == b"state 0"
    assert next(ledger.rows(["reward"]))["reward"] == 0.1 + 0.2  # bit for bit
    assert ledger.step_rows()[1]["metrics"] == {"reward_mean": 0.1}
    assert ledger.config == {"run": {"seed": 1}}


def test_a_step_is_all_or_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.commit_step(step(0), [row(0)], b"state 0", keep=False)
    with pytest.raises(sa.exc.IntegrityError):
        ledger.commit_step(step(1), [row(1), row(0)], b"state 1", keep=False)  # the second row exists already
    assert (ledger.n_steps, ledger.n_candidates, ledger.state()) == (1, 1, b"state 0")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.commit_step(step(0), [row(0)], b"state 0", keep=False)

    @sa.event.listens_for(ledger._engine, "connect")
    def small(connection: Any, _record: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")  # as if the disk ended here

    ledger._engine.dispose()
    with pytest.raises(AnchorError, match="full") as error:
        ledger.commit_step(step(1), [row(1)], b"x" * 1_000_000, keep=False)
    assert "everything before it is safe" in str(error.value)
    ledger.close()
    assert Ledger.open(tmp_path).state() == b"state 0"


def test_foreign_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ledger"):
        Ledger.open(tmp_path / "nowhere")
    text = tmp_path / "text.db"
    text.write_text("this is no database, but long enough to look like one" * 20)
    with pytest.raises(InputError, match="cannot be read as a ledger"):
        Ledger.open(text)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE things (a)").connection.commit()
    with pytest.raises(InputError, match="not a ledger of anchor"):
        Ledger.open(other)


def test_an_existing_ledger_is_never_overwritten(tmp_path: Path) -> None:
    new_ledger(tmp_path)
    with pytest.raises(InputError, match="holds a campaign already"):
        new_ledger(tmp_path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute("UPDATE campaign SET schema_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="schema 99"):
        Ledger.open(tmp_path)


def test_file_system_type_is_that_of_the_mount() -> None:
    assert file_system_type(Path("/proc/self")) == "proc"


def test_creation_is_all_or_nothing(tmp_path: Path) -> None:
    """A ledger that could not be begun, say on a full disk, leaves nothing."""
    with pytest.raises(sa.exc.StatementError):
        Ledger.create(tmp_path, {"not": {1, 2}}, IDENTITY, "now")  # a set is no JSON: the insert fails
    assert list(tmp_path.iterdir()) == []
    assert new_ledger(tmp_path).n_steps == 0  # the place can be used


def test_somebody_elses_database_is_not_touched(tmp_path: Path) -> None:
    other, text = tmp_path / "other.db", tmp_path / "text.db"
    sqlite3.connect(other).execute("CREATE TABLE things (a)").connection.commit()
    with pytest.raises(InputError, match="somebody else's"):
        Ledger.create(other, {}, IDENTITY, "now")
    text.write_text("not a database at all" * 100)
    with pytest.raises(AnchorError, match="not a database"):
        Ledger.create(text, {}, IDENTITY, "now")
    assert text.read_text().startswith("not a database")


def test_opening_a_foreign_file_changes_no_byte(tmp_path: Path) -> None:
    other, empty = tmp_path / "other.db", tmp_path / "empty.db"
    sqlite3.connect(other).execute("CREATE TABLE things (a)").connection.commit()
    empty.touch()
    before = other.read_bytes()
    for path in (other, empty):
        with pytest.raises(InputError, match="not a ledger"):
            Ledger.open(path)
    assert other.read_bytes() == before
    assert empty.read_bytes() == b""


@pytest.mark.parametrize(("kind", "journal"), [("ext4", "wal"), ("nfs4", "delete"), ("lustre", "delete")])
def test_journal_suits_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, journal: str
) -> None:
    """Also for a ledger that was made elsewhere and then moved."""
    monkeypatch.setattr("anchor.search.ledger.file_system_type", lambda _path: "ext4")
    new_ledger(tmp_path).close()
    monkeypatch.setattr("anchor.search.ledger.file_system_type", lambda _path: kind)
    ledger = Ledger.open(tmp_path)
    ledger.prepare()
    ledger.commit_step(step(0), [row(0)], b"state 0", keep=False)
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == journal
    ledger.close()
    assert Ledger.open(tmp_path).state() == b"state 0"


def test_urls_are_checked_and_passwords_kept_quiet() -> None:
    with pytest.raises(InputError, match="unknown kind of database"):
        Ledger.open("nosuchsql://host/database")
    with pytest.raises(AnchorError) as error:
        Ledger.open("postgresql://somebody:secret@127.0.0.1:9/nothing?connect_timeout=2")
    assert "secret" not in str(error.value)


OLD = Path(__file__).parents[1] / "files" / "ledger-schema-1.db"
"""Written by anchor 0.1: 32 charge-neutral candidates and three finds."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copyfile(OLD, tmp_path / "ledger.db")
    return tmp_path


def test_an_older_schema_is_read(old: Path) -> None:
    ledger = Ledger.open(old)
    assert ledger.version == 1
    rows = list(ledger.rows())
    assert len(rows) == 32
    assert set(rows[0]) == set(candidates.c.keys())
    raw = sqlite3.connect(old / "ledger.db").execute(
        "SELECT energy_above_dft_hull_ev_per_atom, energy_above_potential_hull_ev_per_atom FROM candidates"
    )
    for row, (dft, potential) in zip(rows, raw, strict=True):
        assert row["energy_above_each_hull_ev_per_atom"] == {"dft": dft, "potential": potential}
        assert row["log_probs"] == {}  # nobody learned
        assert row["made_by"] is None
    valid = list(ledger.rows(["formula", "relaxed"], where=candidates.c.valid.is_(True)))
    assert all(decode_crystal(row["relaxed"]).formulas == [row["formula"]] for row in valid)
    finds = ledger.find_rows()
    assert len(finds) == 3
    assert all(set(find["energy_above_each_hull_ev_per_atom"]) == {"dft", "potential"} for find in finds)


def test_an_older_schema_is_reported_and_exported(old: Path) -> None:
    ledger = Ledger.open(old)
    refined = of_campaign(ledger, everything(), "refined")
    assert len(refined) == 3
    assert 0 < len(finds := of_campaign(ledger, everything())) < 3
    assert set(finds.ids) < set(refined.ids)
    assert len(of_campaign(ledger, everything(), "valid")) == 32
    assert 0 < len(of_campaign(ledger, parse("nelements = 2"), "valid")) < 32
    shown = {entry["id"]: entry.get("space_group") for entry in campaign_entries(ledger).shown}
    assert all(shown[find["candidate"]] == find["spacegroup"] for find in ledger.find_rows())
    assert "of 32 proposed" in report_html(ledger)


def test_an_older_schema_is_not_gone_on_with(old: Path) -> None:
    before = (old / "ledger.db").read_bytes()
    with pytest.raises(InputError, match="not gone on with"):
        Campaign.resume(old)
    with pytest.raises(InputError, match="schema 1"):
        Ledger.open(old).commit_step(step(1), [row(32)], b"", keep=False)
    assert (old / "ledger.db").read_bytes() == before


def test_one_process_at_a_time_goes_on(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    with ledger.alone():
        with ledger.alone():  # within itself it may be asked for again
            pass
        with (
            pytest.raises(AnchorError, match="another process is going on") as error,
            Ledger.open(tmp_path).alone(),
        ):
            pass
        assert "wait for it" in str(error.value)
    with Ledger.open(tmp_path).alone():  # the file is still there, its holder is not
        assert (tmp_path / "ledger.lock").exists()


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with Ledger.open(tmp_path).alone():
            os.write(writing, b"locked")
            signal.pause()
    os.read(reading, 6)
    with pytest.raises(AnchorError, match="another process"), ledger.alone():
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with ledger.alone():
        pass


def test_a_step_of_another_process_is_not_written_over(tmp_path: Path) -> None:
    """As on a database server, where there is no lock."""
    ledger = new_ledger(tmp_path)
    ledger.commit_step(step(0), [row(0)], b"theirs", keep=False)
    with pytest.raises(AnchorError, match="another process goes on"):
        ledger.commit_step(step(0), [row(1)], b"ours", keep=False)
    assert (ledger.n_candidates, ledger.state()) == (1, b"theirs")


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("UPDATE campaign SET config = '{'", lambda ledger: ledger.config),
        ("UPDATE campaign SET identity = '{}'", lambda ledger: ledger.identity),
        ("UPDATE steps SET metrics = 'nope'", lambda ledger: ledger.step_rows()),
        ('UPDATE steps SET seconds = \'{"a": "b"}\'', lambda ledger: ledger.step_rows()),
        ("UPDATE candidates SET own_objectives = '['", lambda ledger: list(ledger.rows())),
        ("DROP TABLE steps", lambda ledger: ledger.n_steps),
    ],
)
def test_damaged_fields_are_named(tmp_path: Path, statement: str, read: Any) -> None:
    new_ledger(tmp_path).commit_step(step(0), [row(0)], b"state", keep=False)
    connection = sqlite3.connect(tmp_path / "ledger.db")
    with connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(AnchorError, match=r"ledger\.db") as error:
        read(Ledger.open(tmp_path))
    assert "bring back a copy" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"\x02", b"\x00" * 80, b"\x01" * 50])
def test_a_damaged_crystal_is_named(content: bytes) -> None:
    with pytest.raises(AnchorError, match="damaged"):
        decode_crystal(content)

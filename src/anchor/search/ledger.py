"""The ledger: one database that holds a campaign, every candidate and everything needed to go on.

A SQLite file by default, PostgreSQL or another server by URL. One step of a campaign is one transaction, so a
ledger is never between two steps, however a run ends.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
)

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
from anchor.paths import alone
from anchor.search import older
from anchor.search.tables import campaign, candidates, finds, metadata, states, steps, verdicts

SCHEMA_VERSION = 2
IDENTITY = ("anchor", "code", "reference", "prior", "potential", "hull", "threads")
"""What every ledger says of the parts it was made with."""
PRIOR = "prior"
"""Name of the latest state of a prior that rewards train, among the states of the policy."""
APPLICATION_ID = 0x414E4352  # "ANCR" in a SQLite header: tells our files from anybody else's
RECOVER = "bring back a copy; of a damaged SQLite file, 'sqlite3 FILE .recover' saves what is left"
EXAMPLE_URL = "for example postgresql://user@host/database"
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "9p",
    "fuse.sshfs",
}


def _checked_step(row: dict[str, Any]) -> dict[str, Any]:
    """A step whose metrics and seconds are numbers by name, as they were stored."""
    for name in ("metrics", "seconds"):
        if not all(isinstance(value, int | float) for value in dict(row[name]).values()):
            raise ValueError(f"{name} of step {row['step']} are not numbers")
    return row


def encode_crystal(crystal: Crystals) -> bytes:
    """One crystal, without loss: atom count and numbers (uint8), cell and coordinates (float64)."""
    head = bytes([crystal.n_atoms]) + crystal.numbers.astype(np.uint8).tobytes()
    return head + crystal.lattice.astype("<f8").tobytes() + crystal.frac.astype("<f8").tobytes()


def decode_crystal(content: bytes | None) -> Crystals:
    """Inverse of `encode_crystal`."""
    content = content or b""
    n = content[0] if content else 0
    if not n or len(content) != 1 + n + 8 * (9 + 3 * n):
        raise AnchorError(f"a crystal in the ledger is damaged: {len(content)} bytes for {n} atoms", RECOVER)
    numbers = np.frombuffer(content, np.uint8, n, offset=1).astype(np.int64)
    values = np.frombuffer(content, "<f8", 9 + 3 * n, offset=1 + n)
    return Crystals(np.array([n]), numbers, values[9:].reshape(n, 3), values[:9].reshape(1, 3, 3))


class Ledger:
    """An open ledger. Use `Ledger.create` or `Ledger.open`."""

    def __init__(self, url: sa.URL, path: Path | None) -> None:
        self._engine, self._path = _engine(url, path), path
        self.location = str(path or url)  # a URL without its password
        self.version = SCHEMA_VERSION
        self._held = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one process that goes on with the campaign; within itself again, too.

        Of a database on a server nobody else is kept away: there the second one to store a step fails.

        Raises:
            AnchorError: Another process goes on with it. One that has ended, however it did, is no obstacle.
        """
        with ExitStack() as lock:
            if self._path is not None and not self._held:
                lock.enter_context(
                    alone(self._path.with_suffix(".lock"), f"going on with {self._path.parent}")
                )
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1

    @classmethod
    def check_free(cls, location: str | Path) -> None:
        """Refuse what `create` would: a file that holds a ledger, or is somebody else's database."""
        url, path = _url(location)
        if path is not None and path.exists():
            with cls(url, path)._transaction() as connection:
                _refuse_taken(connection, str(path), path)

    @classmethod
    def create(
        cls, location: str | Path, config: Mapping[str, Any], identity: Mapping[str, Any], created: str
    ) -> Ledger:
        """A new ledger; a place that already holds one is refused."""
        url, path = _url(location)
        name = str(path or url)  # a URL without its password
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"the folder '{path.parent}' cannot be made: {error}") from error
        fresh = path is not None and not path.exists()
        ledger = cls(url, path)
        row = {
            "id": 1,
            "schema_version": SCHEMA_VERSION,
            "config": dict(config),
            "identity": dict(identity),
            "created": created,
        }
        try:
            with ledger._transaction() as connection:
                _refuse_taken(connection, name, path)
                if path is not None:
                    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
                metadata.create_all(connection)
                connection.execute(campaign.insert(), row)
            ledger.prepare()
        except BaseException:
            ledger.close()
            if fresh and path is not None and path.exists() and not path.stat().st_size:
                path.unlink()  # what a full disk leaves
            raise
        return ledger

    @classmethod
    def open(cls, location: str | Path) -> Ledger:
        """An existing ledger, also of an older schema; a missing, unreadable or foreign one is refused."""
        url, path = _url(location)
        if path is not None and not path.is_file():
            raise InputError(f"there is no ledger at '{path}'", "start one with: anchor search --out FOLDER")
        name = str(path or url)  # a URL without its password
        if path is not None and _only_readable(path):
            url = url.set(database=f"file:{quote(str(path))}", query={"immutable": "1", "uri": "true"})
        ledger = cls(url, path)
        try:
            with ledger._engine.connect() as connection:
                if not sa.inspect(connection).has_table("campaign"):
                    raise InputError(f"'{name}' is a database, but not a ledger of anchor")
                version = connection.execute(sa.select(campaign.c.schema_version)).scalar_one_or_none()
        except (DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes what it does not understand
            cause = getattr(error, "orig", error)
            raise InputError(f"'{name}' cannot be read as a ledger: {cause}", RECOVER) from error
        if not isinstance(version, int):
            raise InputError(f"the ledger '{name}' is damaged: its schema is {version!r}", RECOVER)
        if version > SCHEMA_VERSION:
            raise InputError(
                f"the ledger '{name}' has schema {version}, this anchor reads up to {SCHEMA_VERSION}",
                "use the anchor version that wrote it, or a newer one",
            )
        ledger.version = version
        return ledger

    def prepare(self) -> None:
        """Set up the file for writing; what only reads leaves every byte as it is."""
        self.require_current()
        if self._path is not None:
            self._engine.dispose()  # a journal changes only while nobody else looks
            journal = "DELETE" if file_system_type(self._path) in NETWORK_FILE_SYSTEMS else "WAL"
            with closing(sqlite3.connect(self._path)) as connection:
                connection.execute(f"PRAGMA journal_mode={journal}")

    @property
    def is_current(self) -> bool:
        """Whether its tables are those of this version."""
        return self.version == SCHEMA_VERSION

    def require_current(self) -> None:
        """Refuse to write into a ledger of an older schema."""
        if self.version != SCHEMA_VERSION:
            raise InputError(
                f"the ledger '{self.location}' has schema {self.version}, this anchor writes "
                f"{SCHEMA_VERSION}: it can be reported, exported and evaluated, but not gone on with",
                "use the anchor that began it, or start anew from its policy (anchor policy save)",
            )

    # Writing

    def commit_step(
        self,
        step: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        state: bytes,
        *,
        keep: bool,
        prior: bytes | None = None,
    ) -> None:
        """Store one step: its candidates, its summary and the state to go on from, all or nothing.

        Args:
            keep: Keep the state under the step's number, too.
            prior: State of a prior that was trained in this step.
        """
        self.require_current()
        latest = {"step": step["step"], "content": state}
        with self._transaction() as connection:
            if connection.execute(sa.select(steps.c.step).where(steps.c.step == step["step"])).first():
                raise AnchorError(
                    f"step {step['step']} is stored already in '{self.location}': another process goes on "
                    "with this campaign",
                    "everything stored is safe; let one of them go on alone",
                )
            connection.execute(candidates.insert(), [dict(row) for row in rows])
            connection.execute(steps.insert(), dict(step))
            connection.execute(states.delete().where(states.c.name == "latest"))
            connection.execute(states.insert(), {"name": "latest", **latest})
            if prior is not None:
                connection.execute(states.delete().where(states.c.name == PRIOR))
                connection.execute(states.insert(), {"name": PRIOR, "step": step["step"], "content": prior})
            if keep:
                connection.execute(states.insert(), {"name": str(step["step"]), **latest})

    def store_finds(self, rows: Sequence[Mapping[str, Any]], span: range | None = None) -> None:
        """Replace the refined finds, all or those among a span of candidates."""
        self.require_current()
        theirs = sa.true() if span is None else finds.c.candidate.between(span.start, span.stop - 1)
        with self._transaction() as connection:
            connection.execute(finds.delete().where(theirs))
            if rows:
                connection.execute(finds.insert(), [dict(row) for row in rows])

    def place_finds(self, above: Mapping[int, float | None]) -> None:
        """Energies above the hull with all finds on it, by candidate, eV/atom."""
        self.require_current()
        place = finds.update().where(finds.c.candidate == sa.bindparam("id"))
        values = [{"id": candidate, "above": energy} for candidate, energy in above.items()]
        with self._transaction() as connection:
            if values:
                connection.execute(place.values({ABOVE_WITH_FINDS: sa.bindparam("above")}), values)

    def refined(self) -> list[int]:
        """Candidates that are refined, ascending."""
        query = sa.select(finds.c.candidate).order_by(finds.c.candidate)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    def store_verdicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add verdicts; one of the same candidate and level is replaced."""
        self.require_current()
        with self._transaction() as connection:
            verdicts.create(connection, checkfirst=True)
            for row in rows:
                same = (verdicts.c.candidate == row["candidate"]) & (verdicts.c.level == row["level"])
                connection.execute(verdicts.delete().where(same))
                connection.execute(verdicts.insert(), dict(row))

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DatabaseError as error:
            if isinstance(error, IntegrityError):
                raise
            raise AnchorError(
                f"the ledger '{self.location}' could not be written: {error.orig}",
                "the unfinished step was not stored, everything before it is safe; mend the cause and resume",
            ) from error

    # Reading

    @property
    def config(self) -> dict[str, Any]:
        return self._scalar(sa.select(campaign.c.config))

    @property
    def identity(self) -> dict[str, Any]:
        found = self._scalar(sa.select(campaign.c.identity))
        missing = [name for name in IDENTITY if not isinstance(found, dict) or name not in found]
        if missing:
            raise AnchorError(f"the ledger '{self.location}' is damaged: it has no {missing[0]}", RECOVER)
        return found

    @property
    def n_steps(self) -> int:
        """Steps stored: also the number of the next one."""
        return self._scalar(sa.select(sa.func.count()).select_from(steps))

    @property
    def n_candidates(self) -> int:
        return self._scalar(sa.select(sa.func.count()).select_from(candidates))

    def state(self, name: str = "latest") -> bytes | None:
        """Policy and optimiser as stored, or those of the prior (`PRIOR`); None where there is none yet."""
        return self._scalar(sa.select(states.c.content).where(states.c.name == name), optional=True)

    def state_names(self) -> list[str]:
        """Of the states of the policy."""
        policies = sa.select(states.c.name).where(states.c.name != PRIOR).order_by(states.c.step)
        with self._reading() as connection:
            names = connection.execute(policies).scalars()
            return sorted(names, key=lambda name: name == "latest")  # kept ones by step, then the latest

    def step_rows(self) -> list[dict[str, Any]]:
        """All steps in order."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(steps).order_by(steps.c.step)).mappings()
            return [_checked_step(dict(row)) for row in rows]

    def rows(
        self,
        columns: Sequence[str] | None = None,
        where: sa.ColumnElement[bool] | None = None,
        *,
        order: Sequence[sa.ColumnElement[Any]] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """Candidates in sampling order, all columns or the named ones.

        Args:
            columns: Names.
            where: Only those.
            order: Before the sampling order.
            limit, offset: At most so many, after so many.
        """
        names = list(columns or candidates.c.keys())
        query = sa.select(*self._select(candidates, names)).order_by(*order, candidates.c.id)
        if where is not None:
            query = query.where(where)
        if limit is not None:
            query = query.limit(limit).offset(offset)
        with self._reading() as connection:
            for row in connection.execution_options(yield_per=1000).execute(query).mappings():
                yield self._renewed(dict(row), names)

    def count(self, where: sa.ColumnElement[bool]) -> int:
        """How many candidates there are of a kind."""
        return self._scalar(sa.select(sa.func.count()).select_from(candidates).where(where))

    def valid_formulas(self) -> dict[str, int]:
        """How many valid candidates each formula has."""
        query = sa.select(candidates.c.formula, sa.func.count()).where(candidates.c.valid.is_(True))
        with self._reading() as connection:
            found = connection.execute(query.group_by(candidates.c.formula))
            return {row[0]: row[1] for row in found}

    def last_relaxed(self, formula: str, n: int) -> list[bytes]:
        """The last n relaxed crystals of a formula's valid candidates, encoded, in sampling order."""
        query = sa.select(candidates.c.relaxed).where(candidates.c.formula == formula)
        query = query.where(candidates.c.valid.is_(True)).order_by(candidates.c.id.desc()).limit(n)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())[::-1]

    def find_rows(self, *, known: bool = False) -> list[dict[str, Any]]:
        """Refined finds with their candidates' columns, lowest energy above the hull first.

        `n_atoms` is the crystal's: a prior that chooses the formula units may not keep the proposed cell.

        Args:
            known: Those whose formula is known (rediscoveries) instead of those known nowhere.
        """
        names = list(finds.c.keys())
        own = [column.name for column in candidates.c if column.name not in finds.c]
        query = sa.select(*self._select(finds, names)).order_by(finds.c[ABOVE], finds.c.candidate)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
        found = [self._renewed(dict(row), names) for row in rows]
        theirs = candidates.c.id.in_([row["candidate"] for row in found])
        by_id = {row["id"]: row for row in self.rows(own, where=theirs)}
        return [
            {**by_id[row["candidate"]], **row, "n_atoms": decode_crystal(row["crystal"]).n_atoms}
            for row in found
            if bool(by_id[row["candidate"]]["known_in"]) == known
        ]

    def verdict_rows(self) -> list[dict[str, Any]]:
        """What attacks said about candidates, by candidate and level; a ledger of before has none."""
        with self._reading() as connection:
            if not sa.inspect(connection).has_table(verdicts.name):
                return []
            query = sa.select(verdicts).order_by(verdicts.c.candidate, verdicts.c.level)
            return [dict(row) for row in connection.execute(query).mappings()]

    @property
    def n_verdicts(self) -> int:
        """Attacks on finds that are stored."""
        with self._reading() as connection:
            if not sa.inspect(connection).has_table(verdicts.name):
                return 0
            return connection.execute(sa.select(sa.func.count()).select_from(verdicts)).scalar_one()

    def _select(self, table: sa.Table, names: Sequence[str]) -> Sequence[sa.ColumnElement[Any]]:
        """Columns to ask a table of this ledger's schema for."""
        if self.version == SCHEMA_VERSION:
            return [table.c[name] for name in names]
        return older.select(table, names)

    def _renewed(self, row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """A row as this version has it."""
        return row if self.version == SCHEMA_VERSION else older.renewed(row, names)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise AnchorError(
                f"the ledger '{self.location}' could not be read: {cause}",
                RECOVER,
            ) from error
        except (ValueError, TypeError) as error:  # a field that does not hold what its column says
            raise AnchorError(
                f"the ledger '{self.location}' is damaged, a field cannot be read: {error}", RECOVER
            ) from error

    def _scalar(self, query: sa.Select[Any], *, optional: bool = False) -> Any:
        with self._reading() as connection:
            result = connection.execute(query)
            return result.scalar_one_or_none() if optional else result.scalar_one()

    def close(self) -> None:
        self._engine.dispose()


def _refuse_taken(connection: sa.Connection, name: str, path: Path | None) -> None:
    present = set(sa.inspect(connection).get_table_names())
    if "campaign" in present:
        raise InputError(
            f"'{name}' holds a campaign already", "go on with: anchor resume FOLDER, or choose another place"
        )
    if present and (path is not None or present & set(metadata.tables)):
        raise InputError(f"'{name}' is somebody else's database", "choose another place")


def _url(location: str | Path) -> tuple[sa.URL, Path | None]:
    """Database URL, and the file when it is a SQLite file. A folder means 'ledger.db' inside it."""
    text = str(location)
    if "://" in text:
        try:
            url = sa.make_url(text)
        except ArgumentError as error:
            raise InputError(f"not a database URL: {error}", EXAMPLE_URL) from error
        if url.drivername in ("postgresql", "postgres"):  # SQLAlchemy would take psycopg2, the old driver
            url = url.set(drivername="postgresql+psycopg")
        return url, None
    path = Path(text)
    if path.is_dir() or not path.suffix:
        path = path / "ledger.db"
    return sa.URL.create("sqlite", database=str(path)), path


def _only_readable(path: Path) -> bool:
    """Whether a ledger lies where nothing can be written: SQLite's log needs a file beside it, unless told.

    One whose log has not been written back can be read by a process that may write only.
    """
    log = path.with_name(path.name + "-wal")
    unwritten = log.is_file() and log.stat().st_size > 0
    return not os.access(path.parent, os.W_OK) and not unwritten


def _engine(url: sa.URL, path: Path | None) -> sa.Engine:
    try:
        engine = sa.create_engine(url, json_serializer=lambda value: json.dumps(value, sort_keys=True))
    except NoSuchModuleError as error:
        raise InputError(f"unknown kind of database '{url.drivername}'", EXAMPLE_URL) from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"the database driver of {url.drivername} is missing: {error}",
            "for PostgreSQL: pip install 'anchor-crystals[postgresql]'",
        ) from error
    if path is not None:

        @sa.event.listens_for(engine, "connect")
        def _settings(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA synchronous=FULL")  # a stored step survives a power cut
            connection.isolation_level = None  # Python's own rules would commit each CREATE TABLE by itself

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    return engine


def file_system_type(path: Path) -> str:
    """Type of the file system that holds `path` ('ext4', 'nfs', …), '' where the system does not tell.

    SQLite's write-ahead log needs shared memory between processes, which network file systems do not give.
    """
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return ""
    place, best, kind = os.path.realpath(path), "", ""
    for line in mounts.read_text().splitlines():
        fields = line.split(" ")
        mount = fields[1].encode().decode("unicode_escape")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind

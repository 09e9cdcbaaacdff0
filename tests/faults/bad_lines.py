"""Wrong command lines, tried for real: python tests/faults/bad_lines.py [--only WORD] [--out FILE]

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
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before torch is imported: a process with threads must not be forked
sys.path.insert(0, str(Path(__file__).parent))

import workspace
from lines import Line, all_lines

SECONDS = 60.0
"""Until a line hangs. The longest good answer takes six on a quiet machine."""
MEMORY = 12 * 2**30
"""Bytes of address space: an absurd count must not take the machine with it."""
KINDS = ("answered", "traceback", "crash", "hang", "harm", "silent", "unclear")


def _warm_up() -> None:
    """Import and read what commands share, once for all forked processes."""
    import anchor.cli.main
    import anchor.evaluate.run
    import anchor.report.html
    import anchor.search.finds  # noqa: F401
    from anchor.config import load_config
    from anchor.paths import cache_dir
    from anchor.search.environment import Environment

    os.environ["ANCHOR_CACHE"] = str(cache_dir())
    Environment.load(load_config(overrides=["run.workers=1"]).config).identity()


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
    child = os.fork()
    if child == 0:
        _become(words, folder, output)
    code = _wait(child)
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


def _become(words: list[str], folder: Path, output: Path) -> None:
    """Be the command in this forked process; does not return."""
    os.setsid()
    os.chdir(folder)
    file = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(file, 2)
    os.dup2(file, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["ANCHOR_CACHE"] = os.environ.get("ANCHOR_CACHE", "")
    if words[0].startswith("env:"):
        os.environ.update(pair.split("=") for pair in words.pop(0)[4:].split(","))
        sys.stdout.reconfigure(encoding=os.environ.get("PYTHONIOENCODING", "utf-8"))  # type: ignore[union-attr]
        sys.stderr.reconfigure(encoding=os.environ.get("PYTHONIOENCODING", "utf-8"))  # type: ignore[union-attr]
    if (folder / "cache").is_dir():
        shutil.copytree(os.environ["ANCHOR_CACHE"], folder / "cache", dirs_exist_ok=True, symlinks=True)
        os.environ["ANCHOR_CACHE"] = str(folder / "cache")
    if words[0] == "stdout:closed":
        words.pop(0)
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    if words[0] == "stdout:full":
        words.pop(0)
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    sys.path.insert(0, str(folder))  # own objectives are imported from where one is
    sys.argv = ["anchor", *words]
    from anchor.cli import main

    code = 0
    try:
        main.run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120  # as Python ends when its last words cannot be written
            os.write(2, b"Traceback (most recent call last): at exit\n")
    os._exit(code & 0xFF)


def _wait(child: int) -> int | None:
    """Its exit code, a signal as a negative one, None after the limit (then it is killed with its own)."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


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
    parser.add_argument("--only", help="Lines that hold this text.")
    parser.add_argument("--template", type=Path, help="Workspace that was made before.")
    parser.add_argument("--out", type=Path, help="Also write every line and its answer as JSON lines.")
    options = parser.parse_args()
    _warm_up()
    with tempfile.TemporaryDirectory(prefix="bad-lines-") as scratch:
        place = Path(scratch)
        template = options.template or place / "template"
        if not (template / "eval").is_dir():
            template.mkdir(parents=True, exist_ok=True)
            workspace.make(template)
        found = []
        with full_disk(place / "full") as full:
            for line in all_lines():
                if options.only and options.only not in f"{line.kind} {line.command}":
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

# ruff: noqa: E501, PTH107, PTH211  (one line each)
"""Wrong command lines: what a day can bring, and a word that a good answer has."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import workspace
from workspace import nacl


@dataclass(frozen=True)
class Line:
    """One wrong command line.

    Attributes:
        kind: What is wrong.
        command: Behind `anchor`; {full} is a folder on a full disk.
        expect: Words of a good answer, one of them is enough (separated by |).
        prepare: Done to a fresh workspace before.
        mine: A stranger's files in it, which must stay as they are.
        fine: Exit code 0 is a good answer: the line is odd, not wrong.
    """

    kind: str
    command: str
    expect: str = "error"
    prepare: Callable[[Path], object] | None = None
    mine: tuple[str, ...] = ()
    fine: bool = False


def sql(statement: str, *values: object) -> Callable[[Path], None]:
    """Tamper with the ledger."""

    def run(folder: Path) -> None:
        connection = sqlite3.connect(folder / "run" / "ledger.db")
        with connection:
            connection.execute(statement, values)
        connection.close()

    return run


def text(name: str, content: str | bytes) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return run


def cut(name: str, share: float) -> Callable[[Path], None]:
    """Keep so much of a file."""

    def run(folder: Path) -> None:
        size = (folder / name).stat().st_size
        os.truncate(folder / name, int(size * share))

    return run


def noise(name: str, at: float = 0.5) -> Callable[[Path], None]:
    """Overwrite a piece in the middle of a file."""

    def run(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.seek(int((folder / name).stat().st_size * at))
            file.write(b"\xa5" * 4096)

    return run


def several(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        for step in steps:
            step(folder)

    return run


def objective(body: str) -> Callable[[Path], None]:
    return text("own.py", f"def mine(structures):\n    {body}\n")


def many_atoms(n: int) -> Callable[[Path], None]:
    """n³ atoms on a lattice, 2.9 Å apart, as extxyz."""

    def run(folder: Path) -> None:
        a = 2.9 * n
        head = f'{n**3}\nLattice="{a} 0 0 0 {a} 0 0 0 {a}" Properties=species:S:1:pos:R:3 pbc="T T T"\n'
        points = ((i, j, k) for i in range(n) for j in range(n) for k in range(n))
        lines = (f"{'NaCl'[2 * ((i + j + k) % 2) :][:2]} {2.9 * i} {2.9 * j} {2.9 * k}" for i, j, k in points)
        (folder / "big.extxyz").write_text(head + "\n".join(lines) + "\n")

    return run


def zipped(member: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        with zipfile.ZipFile(folder / "slip.zip", "w") as archive:
            archive.writestr(member, nacl())

    return run


def nan_policy(folder: Path) -> None:
    import torch

    from anchor.policy.weights import load_policy, save
    from anchor.search.policies import DEFAULT_POLICY

    policy = load_policy(DEFAULT_POLICY.read_bytes())
    with torch.no_grad():
        next(policy.parameters()).fill_(float("nan"))
    (folder / "nan.safetensors").write_bytes(save(policy))


def wrong_calibration(folder: Path) -> None:
    place = folder / "cache" / "energies"
    place.mkdir(parents=True)
    (place / "x.npz").write_bytes(b"not an archive")


RELAX = "relax {} --potential mattersim-1m --max-steps 3 --workers 1"
HULL = "hull {} --potential mattersim-1m"
EVALUATE = "evaluate {} --potential mattersim-1m --max-steps 2 --workers 1 --out e"
SMALL = "--preset default --elements Na,Cl --k 2 --max-atoms 4 --set grpo.group_size=8 --finds 0 --set run.workers=1"
FINDS = ("run/finds/notes.cif", "run/finds/data.csv", "run/others/my-structure.cif", "run/others/01-mine.cif")
RESULTS = ("new/finds.csv", "new/report.html", "new/metrics.jsonl", "new/finds/01-mine.cif", "new/others.csv")
GOOD_TOO = several(text("good/nacl.cif", nacl()), text("good/far.cif", nacl().replace("3.99", "1e8", 1)))
SURVIVES = "NaCl|1 measured"
"""The good structure of a call is answered although another is bad."""
FIRST = "UPDATE candidates SET {} WHERE id = (SELECT candidate FROM finds LIMIT 1)"
MINE_CSV = several(lambda w: os.remove(w / "run/finds.csv"), text("run/finds.csv", workspace.MINE))


def _crystals() -> list[Line]:
    """Structures that are none."""
    lines = []
    bad = {
        "far": nacl(a=1e8), "long": nacl().replace("3.99", "1e8", 1), "vast": nacl(a=1e300), "negative": nacl(a=-4), "group": nacl(group=999).replace(
            "loop_\n_symmetry_equiv_pos_as_xyz\n'x, y, z'\n", ""), "nan": nacl(z="nan"),
        "inf": nacl(z="inf"), "tiny": nacl(a=1e-4), "truncated": nacl()[:330], "nothing": "",
        "words": "hello", "angles": nacl().replace("60", "179.9999"), "element": nacl().replace("Na 0", "Qq 0"),
    }  # fmt: skip
    words = {
        "far": "long", "long": "long", "vast": "cell|finite|length", "negative": "negative|length|cell",
        "group": "space group|999", "nan": "finite|nan", "inf": "finite|inf", "tiny": "volume|collapsed",
        "truncated": "atoms|missing|end", "nothing": "CIF|atoms", "words": "CIF|atoms",
        "angles": "volume|angle|cell", "element": "no element",
    }  # fmt: skip
    for name, content in bad.items():
        for command in (RELAX, HULL, EVALUATE):
            if command is EVALUATE and name not in ("far", "long", "negative", "nan"):
                continue
            lines.append(
                Line(
                    "crystal",
                    command.format(f"{name}.cif"),
                    "1 (failed|unreadable)" if command is EVALUATE else words[name],
                    text(f"{name}.cif", content),
                    (),
                    name == "far" or command is EVALUATE,
                )
            )
    both = (RELAX, HULL, EVALUATE)
    lines += [Line("crystal", command.format("good"), SURVIVES, GOOD_TOO, fine=True) for command in both]
    huge = "999999999999\nno\n"
    lines += [
        Line("size", RELAX.format("big.extxyz") + " --cell", "atoms", many_atoms(22), fine=True),
        Line("size", RELAX.format("x.extxyz"), "atoms", text("x.extxyz", huge)),
        Line("size", RELAX.format("x.extxyz"), "atoms|number", text("x.extxyz", "9" * 5000 + "\nno\n")),
        Line("size", HULL.format("x.json"), "deep|nested|JSON", text("x.json", "[" * 100_000)),
        Line("file", RELAX.format("pipe.cif"), "pipe|file", lambda w: os.mkfifo(w / "pipe.cif")),
        Line("file", RELAX.format("/dev/zero"), "file|device"),
        Line("file", HULL.format("/dev/random"), "file|device"),
        Line("file", RELAX.format("there"), "no file|no crystals", lambda w: (w / "there").mkdir()),
        Line("file", RELAX.format("loop.cif"), "no file|loop|link", lambda w: os.symlink("loop.cif", w / "loop.cif")),
        Line("file", RELAX.format("bomb.cif.gz"), "bomb", lambda w: (w / "bomb.cif.gz").write_bytes(gzip.compress(b" " * 300_000_000, 1))),
        Line("file", RELAX.format("x.cif.gz"), "gzip|compressed|end", several(text("x.cif.gz", gzip.compress(nacl().encode())), cut("x.cif.gz", 0.5))),
        Line("file", RELAX.format("x.db"), "database|SQL|malformed", text("x.db", b"SQLite format 3\0" + b"x" * 5000)),
        Line("file", RELAX.format("x.parquet"), "parquet", text("x.parquet", b"PAR1junk")),
        Line("file", RELAX.format("POSCAR"), "POSCAR|float|poscar", text("POSCAR", "x\n1.0\n1 0\n")),
        Line("file", "data convert slip.zip --out back.extxyz", "", zipped("../../../slip.cif"), fine=True),
        Line("file", "data convert 'a\nb.cif' --out back.extxyz", "", text("a\nb.cif", nacl()), fine=True),
        Line("file", "data convert nacl.cif --out mine.extxyz", "exists", mine=("mine.extxyz",)),
    ]  # fmt: skip
    return lines


def _loss() -> list[Line]:
    """What must not be lost or written."""
    more = "--accept-changes -n 16"
    return [
        Line("loss", f"resume run {more} --finds 2", "", mine=FINDS, fine=True),
        Line("loss", f"resume run {more} --finds 0", "", mine=FINDS, fine=True),
        Line("loss", f"search {SMALL} -n 8 --out new", "", mine=RESULTS, fine=True),
        Line("loss", f"resume run {more} --finds 2", "", MINE_CSV, mine=("run/finds.csv",), fine=True),
        Line("loss", "report run --out mine.html", "exists", mine=("mine.html",)),
        Line("loss", "report run --picture mine.png", "exists", mine=("mine.png",)),
        Line("loss", "report run --summary mine.json", "exists", mine=("mine.json",)),
        Line("loss", "report run", "", lambda w: os.remove(w / "run/report.html"), ("run/report.html",), True),
        Line("loss", "policy save run --out mine.safetensors", "exists", mine=("mine.safetensors",)),
        Line("loss", "policy save run --out p.safetensors", "exists", mine=("p.json",)),
        Line("loss", "policy save run --out p.json", "safetensors"),
        Line("loss", "policy warm-start -n 16 --out mine.safetensors", "exists", mine=("mine.safetensors",)),
        Line("loss", "policy plausibility -n 100 --out mine.json", "exists", mine=("mine.json",)),
        Line("loss", "policy surrogate --epochs 1 --members 2 --width 4 --out mine.safetensors", "exists", mine=("mine.safetensors",)),
        Line("loss", "export run --which valid --as extxyz --out mine.extxyz", "exists", mine=("mine.extxyz",)),
        Line("loss", RELAX.format("nacl.cif") + " --out mine.extxyz", "exists", mine=("mine.extxyz",)),
        Line("loss", "prior sample NaCl -n 1 --out mine.cif", "exists", mine=("mine.cif",)),
        Line("loss", "evaluate nacl.cif --out other", "something else", mine=("other/notes.txt",)),
        Line("loss", "search --out new.db " + SMALL, "exists", mine=("new.db",)),
        Line("loss", f"resume run {more} --finds 2", "", sql(FIRST.format("formula = '../../../escaped'")), fine=True),
        Line("loss", f"resume run {more} --finds 2", "", sql(FIRST.format("formula = '/../../../../escaped'")), fine=True),
        Line("loss", f"resume run {more} --finds 2", "", sql("UPDATE candidates SET formula = '../../../escaped'"), fine=True),
    ]  # fmt: skip


def _output() -> list[Line]:
    """Output that cannot be written."""
    places = {
        "{full}/out": "full|space", "/proc/none/out": "/proc", "nacl.cif/out": "not a folder|folder",
        "/dev/null/out": "folder", "x" * 300: "long",
    }  # fmt: skip
    commands = (
        RELAX.format("nacl.cif") + " --out {}.extxyz", "data convert nacl.cif --out {}.extxyz",
        "prior sample NaCl -n 1 --out {}.extxyz", "policy save run --out {}.safetensors",
        "report run --out {}.html", "export run --which valid --as csv --out {}.csv",
        "policy warm-start -n 16 --out {}.safetensors", f"search {SMALL} -n 8 --out {{}}",
        "evaluate nacl.cif --potential mattersim-1m --max-steps 2 --workers 1 --out {}",
        "report run --summary {}.json", "report run --picture {}.png",
    )  # fmt: skip
    lines = []
    for i, command in enumerate(commands):
        for k, (place, words) in enumerate(places.items()):
            if k == 0 or (i + k) % 3 == 0:
                lines.append(Line("output", command.replace("{}", place), words))
    return lines


def _ledger() -> list[Line]:
    """Damaged results."""
    lines = []
    for command in (
        "report run",
        "resume run -n 32 --accept-changes",
        "sample run",
        "export run --which valid --as csv",
    ):
        lines += [
            Line("ledger", command, "ledger|damaged", cut("run/ledger.db", 0.5)),
            Line("ledger", command, "", noise("run/ledger.db"), fine=True),  # it may hit nothing that counts
            Line("ledger", command, "ledger|damaged", text("run/ledger.db", "")),
        ]
    half = "x'0102'"
    damage = {
        "UPDATE campaign SET config = '{'": "damaged|config", "UPDATE campaign SET config = '[]'": "damaged|config",
        "UPDATE campaign SET identity = '{}'": "damaged|identity", "UPDATE campaign SET schema_version = 'x'": "schema|damaged",
        f"UPDATE candidates SET relaxed = {half}": "damaged|crystal", f"UPDATE states SET content = {half}": "policy|damaged",
        "UPDATE steps SET metrics = 'nope'": "damaged|metrics", "UPDATE steps SET seconds = '{\"relaxation\": \"x\"}'": "damaged|seconds",
        "UPDATE candidates SET energy_above_each_hull_ev_per_atom = '['": "damaged|ledger", "DELETE FROM campaign": "ledger|campaign",
        "UPDATE candidates SET formula = 'Qq3'": "damaged|Qq", "DELETE FROM states": "policy|state", "DROP TABLE steps": "ledger|steps",
    }  # fmt: skip
    for statement, words in damage.items():  # a report does not look at everything
        read, go_on = "report run --out r.html", "resume run -n 32 --finds 2 --accept-changes"
        lines.append(Line("ledger", read, "", sql(statement), fine=True))
        unseen = "relaxed" in statement  # a crystal is read when its formula comes up again
        odd = unseen or "formula" in statement
        lines.append(Line("ledger", go_on, "" if unseen else words, sql(statement), fine=odd))
    lines += [
        Line("folder", "compare eval", "summary|JSON", text("eval/summary.json", "{")),
        Line("folder", "compare eval", "summary|JSON", text("eval/summary.json", "[]")),
        Line("folder", "compare eval", "summary", text("eval/summary.json", "")),
        Line("folder", "compare eval eval --paired", "table|JSON", text("eval/table.jsonl", "{nope\n")),
        Line("folder", workspace.EVALUATE, "evaluation.json|JSON", text("eval/evaluation.json", "{")),
        Line("folder", workspace.EVALUATE, "checkpoint|line", text("eval/checkpoint/seed-0.drawn.jsonl", "{bad}\n")),
        Line("folder", "evaluate eval --gate lemat --out e2", "evaluation.json|JSON", text("eval/evaluation.json", "{")),
        Line("weights", "sample bad.safetensors", "policy", text("bad.safetensors", b"\xff" * 100)),
        Line("weights", "sample bad.safetensors", "policy", text("bad.safetensors", b"")),
        Line("weights", "sample nan.safetensors", "finite|NaN", nan_policy),
        Line("weights", f"search {SMALL} -n 8 --out new --set policy.start_from=nan.safetensors", "finite|NaN", nan_policy),
        Line("weights", "prior sample NaCl --prior bad.safetensors", "weights", text("bad.safetensors", b"junk" * 9)),
        Line("weights", "policy describe --surrogate bad.safetensors", "surrogate|weights", text("bad.safetensors", b"junk" * 9)),
        Line("weights", "policy describe --plausibility bad.json", "bad.json", text("bad.json", "{")),
        Line("weights", "policy describe --plausibility bad.json", "bad.json", text("bad.json", "[1]")),
        Line("weights", "hull nacl.cif --potential mattersim-1m --alex-mp bad.gz", "bad.gz", text("bad.gz", b"\x1f\x8bjunk")),
        Line("weights", "potentials fetch mattersim-1m --from bad.pth", "bad.pth|hash|weight", text("bad.pth", b"junk")),
    ]  # fmt: skip
    return lines


def _options() -> list[Line]:
    """Options out of range, odd settings, own code that fails."""
    new = f"search {SMALL} -n 8 --out new"
    own = new + " --set reward.objectives=[own:mine] --set reward.alpha=[1,1,1,1,1]"
    deep = "a: " + "[" * 50_000
    return [
        Line("option", "resume run -n -5 --accept-changes", "structures|-n"),
        Line("option", "resume run -n 0 --accept-changes", "structures|-n"),
        Line("option", "resume run -n 99999999999999 --accept-changes --finds 0", "structures|-n|most"),
        Line("option", f"search {SMALL} --out new -n 99999999999999999999", "structures|-n|most"),
        Line("option", f"search {SMALL} --out new -n -5", "-n"),
        Line("option", "sample default -n 99999999999", "-n|most|1,000,000|memory"),
        Line("option", "compositions sample -n 99999999999", "-n|most|memory"),
        Line("option", "prior sample NaCl -n 99999999999", "-n|most|memory"),
        Line("option", "policy describe -n 99999999999", "-n|most|memory"),
        Line("option", "evaluate neutral -n 99999999999 --out e", "-n|most|memory"),
        Line("option", "prior sample Na9999999999Cl -n 1", "atoms"),
        Line("option", "prior sample NaCl --z 999999999 -n 1", "atoms|formula units"),
        Line("option", "compositions check Na99999999999999999999Cl", "atoms|Na", fine=True),
        Line("option", new + " --set reward.weights=[0,0,0,0]", "zero|weights"),
        Line("option", new + " --set reward.weights=[.nan,1,1,1]", "finite|nan|weights"),
        Line("option", new + " --set reward.alpha=[0,0,0,0]", "alpha"),
        Line("option", new + " --set reward.alpha=[.inf,1,1,1]", "alpha"),
        Line("option", new + " --set relax.fmax=.nan", "fmax"),
        Line("option", new + " --set relax.max_steps=-1", "max_steps"),
        Line("option", new + " --set grpo.learning_rate=.nan", "learning_rate"),
        Line("option", new + " --set grpo.group_size=0", "group_size"),
        Line("option", new + " --set run.workers=100000", "workers"),
        Line("option", new + " --set run.seed=-1", "seed"),
        Line("option", RELAX.format("nacl.cif") + " --fmax nan", "fmax"),
        Line("option", RELAX.format("nacl.cif") + " --fmax -1", "fmax"),
        Line("option", RELAX.format("nacl.cif").replace("3", "-3"), "max.steps"),
        Line("option", HULL.format("nacl.cif") + " --cell --fmax nan", "fmax"),
        Line("option", "sample default --seed -1", "seed"),
        Line("option", "export run --which valid --as csv --where level<low", "number"),
        Line("device", RELAX.format("nacl.cif") + " --device cuda", "cuda"),
        Line("device", RELAX.format("nacl.cif") + " --device mps", "mps"),
        Line("device", HULL.format("nacl.cif") + " --device nonsense", "device"),
        Line("device", EVALUATE.format("nacl.cif") + " --device cuda:7", "cuda"),
        Line("device", "prior sample NaCl --prior omatg -n 1 --device cuda", "cuda"),
        Line("device", new + " --set run.device=cuda", "cuda|device"),
        Line("device", "potentials check mattersim-1m --device cuda", "cuda"),
        Line("objective", own, "ZeroDivisionError|objective", objective("1 / 0")),
        Line("objective", own, "objective", objective("return 'x'")),
        Line("objective", own, "objective", objective("return None")),
        Line("objective", own, "objective", objective("return [7.0] * len(structures)")),
        Line("objective", own, "objective", objective("return [float('nan')] * len(structures)")),
        Line("objective", own, "objective", objective("return [[]]")),
        Line("objective", own, "objective", text("own.py", "def mine(:\n")),
        Line("objective", own, "objective", text("own.py", "1 / 0\n")),
        Line("objective", own, "objective", text("own.py", "mine = 3\n")),
        Line("objective", own, "objective", objective("raise SystemExit(0)")),
        Line("config", "search --out new --config c.yaml", "nested|deep", text("c.yaml", deep)),
        Line("config", "search --out new --config c.yaml", "YAML", text("c.yaml", b"\xff\xfe\x00")),
        Line("config", "search --out new --config c.yaml", "section|YAML", text("c.yaml", "&a [*a]")),
        Line("config", "search --out new --config .", "file|folder|directory"),
        Line("config", "search --out new --config c.yaml", "pipe|file", lambda w: os.mkfifo(w / "c.yaml")),
        Line("config", new + " --set 'grpo.group_size=" + "[" * 2000 + "'", "nested|readable|deep"),
        Line("config", "search --out new --set x", "section.name"),
        Line("source", "evaluate formulas:x.txt --out e", "0 with a crystal", text("x.txt", b"\x00\xff\n"), fine=True),
        Line("source", "evaluate formulas:pipe --out e", "pipe|file", lambda w: os.mkfifo(w / "pipe")),
        Line("source", "evaluate /dev/zero --out e", "1 (failed|unreadable)|device", fine=True),
        Line("ledger url", "report postgresql://nobody@localhost:1/x", "database|connect|driver"),
        Line("ledger url", "report sqlite:////nowhere/at/all.db", "ledger|open"),
        Line("ledger url", "resume nonsense://x", "no ledger"),
    ]  # fmt: skip


def _surroundings() -> list[Line]:
    return [
        Line("cache", HULL.format("nacl.cif"), "", wrong_calibration, fine=True),
        Line("locale", "env:LC_ALL=xx_YY.nope compositions check NaCl", "", fine=True),
        Line("locale", "env:LC_ALL=C,PYTHONIOENCODING=ascii report run --out r.html", "", fine=True),
        Line("locale", "env:LC_ALL=C,PYTHONIOENCODING=ascii data info", "", fine=True),
        Line("locale", "env:LC_ALL=C,PYTHONIOENCODING=ascii sample default -n 3", "", fine=True),
        Line("locale", "env:LC_ALL=C,PYTHONIOENCODING=ascii relax missing.cif", "no file"),
        Line("stdout", "stdout:closed sample default -n 2000", "", fine=True),
        Line("stdout", "stdout:closed data info", "", fine=True),
        Line("stdout", "stdout:closed potentials list --json", "", fine=True),
        Line("stdout", "stdout:full sample default -n 200", "full|space"),
        Line("stdout", "stdout:full data info --json", "full|space"),
    ]


def all_lines() -> list[Line]:
    return [*_loss(), *_crystals(), *_output(), *_ledger(), *_options(), *_surroundings()]


if __name__ == "__main__":
    print(json.dumps({"lines": len(all_lines())}))

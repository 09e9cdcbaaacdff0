"""A folder to break things in: good structures, a small campaign, an evaluation, and a stranger's files.

Everything here is real: the campaign and the evaluation are made by `anchor` itself, once, and copied.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ANCHOR = [sys.executable, "-m", "anchor.cli.main"]
SEARCH = (
    "search --preset default -n 16 --elements Li,Na,K,Rb,Y,Sc,Se,S,F --k 3 --max-atoms 5 --seed 1 --finds 2 "
    "--out run --set grpo.group_size=16 --set relax.max_steps=5 --set run.workers=1"
)
EVALUATE = "evaluate nacl.cif --potential mattersim-1m --max-steps 2 --workers 1 --out eval"

NACL = """data_NaCl
_symmetry_space_group_name_H-M 'P 1'
_cell_length_a {a}
_cell_length_b {a}
_cell_length_c {a}
_cell_angle_alpha 60
_cell_angle_beta 60
_cell_angle_gamma 60
_symmetry_Int_Tables_number {group}
loop_
_symmetry_equiv_pos_as_xyz
'x, y, z'
loop_
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Na 0 0 {z}
Cl 0.5 0.5 0.5
"""
MINE = "A stranger's own words: not anchor's to change.\n"


def nacl(a: object = 3.99, group: object = 1, z: object = 0) -> str:
    """Rock salt in its primitive cell, or something wrong like it."""
    return NACL.format(a=a, group=group, z=z)


def make(folder: Path) -> None:
    """Fill an empty folder: nacl.cif, run/ (a campaign of 8), eval/ (an evaluation)."""
    (folder / "nacl.cif").write_text(nacl())
    for line in (SEARCH, EVALUATE):
        subprocess.run([*ANCHOR, *line.split()], cwd=folder, check=True, capture_output=True)


def copy(template: Path, to: Path) -> Path:
    """A fresh workspace below `to`, with a neighbour that nothing may touch."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(template, to / "work")
    (to / "mine.txt").write_text(MINE)
    return to / "work"


def strangers(folder: Path, *names: str) -> None:
    """Files of somebody else."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MINE)


def harmed(top: Path, names: tuple[str, ...]) -> list[str]:
    """Files of others that changed or vanished, and files written beside the workspace."""
    gone = [
        n
        for n in names
        if not (top / "work" / n).is_file() or (top / "work" / n).read_bytes() != MINE.encode()
    ]
    beside = [p.name for p in top.iterdir() if p.name not in ("work", "mine.txt")]
    return gone + beside + ([] if (top / "mine.txt").read_text() == MINE else ["../mine.txt"])


def empties(folder: Path) -> list[str]:
    """Empty or half-written files: what a full disk must not leave."""
    return [
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if p.is_file() and (p.stat().st_size == 0 or p.name.endswith((".tmp", ".draft", ".partial")))
        and not p.name.endswith(("lock", "-wal", "-shm"))
    ]  # fmt: skip


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, str]:
    """That of this process, on one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

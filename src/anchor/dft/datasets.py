"""Data sets that GPAW's collection lacks, or has with 4f in the valence: made by GPAW's own generator, once.

A set takes seconds. It lies in the cache folder under the tag "anchor"; where the generator refuses an
element, its phases get the status "no data set".
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from anchor.dft.rules import FROZEN_4F, WITHOUT_DATA
from anchor.paths import cache_dir

TAG = "anchor"
LONGEST_S = 300.0
"""Seconds that making one set may take."""
SEMICORE_ELECTRONS = {"Tc": 15, "Th": 12, "Pa": 13, "U": 14, "Np": 15, "Pu": 16}
"""Valence electrons of the sets that are generated whole: semicore s and p shells included."""


def folder() -> Path:
    """Where generated sets lie; GPAW finds them by $GPAW_SETUP_PATH."""
    return cache_dir() / "dft" / "datasets"


def arguments(symbol: str) -> list[str]:
    """Of `gpaw dataset` for one element."""
    common = [symbol, "-f", "PBE", "-t", TAG, "-w"]
    if symbol in FROZEN_4F:
        shell, d_electrons = FROZEN_4F[symbol]
        # Projectors that end in F (or two of f) gave ghost states of f; one of f and G gives none.
        return [
            *common, "-C", f"[Xe]{shell},5d{d_electrons},6s2", "-P", "5s,6s,5p,6p,5d,d,0.5f,G", "-r", "2.2",
        ]  # fmt: skip
    return [*common, "-e", str(SEMICORE_ELECTRONS[symbol])]


def make(python: Path, symbols: Iterable[str]) -> dict[str, str]:
    """Make the sets that are not there yet.

    Args:
        python: Interpreter that has GPAW.
        symbols: Elements of `FROZEN_4F` or `WITHOUT_DATA`; others have a set in GPAW's collection.

    Returns:
        Elements without a set, and why.
    """
    refused: dict[str, str] = {}
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    for symbol in sorted(frozenset(symbols) & (FROZEN_4F.keys() | WITHOUT_DATA)):
        path = target / f"{symbol}.{TAG}.PBE"
        if path.exists() or path.with_suffix(".PBE.gz").exists():
            continue
        command = [str(python), "-m", "gpaw", "dataset", *arguments(symbol)]
        try:
            done = subprocess.run(
                command, cwd=target, capture_output=True, text=True, timeout=LONGEST_S, check=False
            )
        except subprocess.TimeoutExpired:
            refused[symbol] = f"its generation took more than {LONGEST_S:.0f} s"
            continue
        if not path.exists():
            said = (done.stderr.strip() or done.stdout.strip() or "nothing was written").splitlines()
            refused[symbol] = said[-1][:200]
    return refused

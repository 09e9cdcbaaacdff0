"""How far a study's searches are while they run, read from their ledgers, whoever writes those."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Self

from anchor.errors import AnchorError
from anchor.search.ledger import Ledger
from anchor.studies.budget import proposed
from anchor.studies.cells import Results, waves
from anchor.studies.declaration import Study
from anchor.studies.making import begun

Tell = Callable[[int, int, float], None]
"""Called with structures so far, of how many, and about how many seconds are left."""


def structures_so_far(study: Study, results: Results) -> tuple[int, int]:
    """What the searches of a study have proposed, and what they are to propose."""
    done = of = 0
    for unit in dict.fromkeys(unit for wave in waves(study) for unit in wave if unit.judging is None):
        if budget := proposed(unit, results):
            of += budget
            if begun(folder := unit.folder(results)):
                with closing(Ledger.open(folder)) as ledger:
                    done += min(ledger.n_candidates, budget)
    return done, of


class Watch:
    """Tells how far the searches are every so often, as long as it is entered and they get on.

    Args:
        every: Seconds between two looks.
    """

    def __init__(self, study: Study, results: Results, tell: Tell, *, every: float) -> None:
        self._look = lambda: structures_so_far(study, results)
        self._tell, self._every = tell, every
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, args=self._look(), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self, first: int, of: int) -> None:
        began, before = time.monotonic(), first
        while before < of and not self._ended.wait(self._every):
            try:
                done, of = self._look()
            except AnchorError:  # whoever writes the ledger meets it, too, and says so
                continue
            if done > before:
                self._tell(done, of, (time.monotonic() - began) / (done - first) * (of - done))
            before = done

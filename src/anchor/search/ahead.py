"""Steps under way: what was proposed and is being relaxed while earlier steps are learned from.

Answers are taken in the order of the steps, whoever is ready first, so what a campaign does depends on how
many steps may be under way and not on how fast anyone was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from anchor.clock import Clock
from anchor.executors import AbandonedError, Executor, Turns
from anchor.policy.grpo import Proposal
from anchor.search.realise import Realised

Realise = Callable[[Proposal, Clock], list[Realised]]


@dataclass(eq=False)
class UnderWay:
    """A step that was proposed, the clock of its parts, and its answer."""

    proposal: Proposal
    clock: Clock
    answer: Future[list[Realised]]


@dataclass(eq=False)
class Ahead:
    """Realises proposals, several at a time where the executor can be shared; else each when it is added.

    Attributes:
        realise: What becomes of a proposal.
        executor: That `realise` uses.
        most: Steps under way.
        threads: Of the numerical libraries here: a new thread would not know them.
    """

    realise: Realise
    executor: Executor
    most: int
    threads: int
    steps: deque[UnderWay] = field(default_factory=deque)
    _pool: ThreadPoolExecutor | None = None

    @property
    def structures(self) -> int:
        """Compositions under way."""
        return sum(len(step.proposal.compositions) for step in self.steps)

    def add(self, proposal: Proposal, clock: Clock) -> None:
        """Begin with a proposal."""
        answer: Future[list[Realised]] = Future()
        if self.most > 1 and isinstance(self.executor, Turns):
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    self.most, initializer=torch.set_num_threads, initargs=(self.threads,)
                )
            answer = self._pool.submit(self._in_turn, self.executor, proposal, clock)
        else:
            answer.set_result(self.realise(proposal, clock))
        self.steps.append(UnderWay(proposal, clock, answer))

    def _in_turn(self, turns: Turns, proposal: Proposal, clock: Clock) -> list[Realised]:
        with turns.mine():
            if turns.abandoned:
                raise AbandonedError
            return self.realise(proposal, clock)

    def first(self) -> tuple[Proposal, Clock, list[Realised]]:
        """The oldest step, when its answer is there."""
        step = self.steps[0]
        realised = step.answer.result()
        self.steps.popleft()
        return step.proposal, step.clock, realised

    def my_turn(self) -> AbstractContextManager[None]:
        """For what this thread computes while others realise."""
        if self._pool is not None and isinstance(self.executor, Turns):
            return self.executor.mine()
        return nullcontext()

    def abandon(self) -> None:
        """Give up what is under way; its workers are free when this returns."""
        if self._pool is not None:
            assert isinstance(self.executor, Turns)
            self.executor.abandoned = True
            self._pool.shutdown(cancel_futures=True)
            self.executor.abandoned = False
            self._pool = None
        self.steps.clear()

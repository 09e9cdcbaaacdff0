"""A process that relaxes what comes in and sends it back: `anchor.relax.parallel` starts it, not people."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import IO

import numpy as np
import torch

from anchor.potentials.registry import load_potential
from anchor.relax.messages import Message, from_relaxation, note, noted, receive, send, to_crystals
from anchor.relax.parallel import timed_relax


def main() -> None:
    """Relax parts from standard input until it is closed."""
    for name in ("SIGINT", "SIGTERM"):  # whoever started us finishes the step and then closes our input
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a package prints must not end up among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        serve(sys.stdin.buffer, answers)


def end_with(parent: int) -> None:
    """End at once when the parent process is gone, in the middle of a relaxation, too."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every request; an error with its text."""
    beginning = noted(receive(requests)["beginning"])
    torch.set_num_threads(beginning["threads"])
    potential = load_potential(beginning["potential"], dtype=beginning["dtype"])
    if potential.checkpoint_hash != beginning["checkpoint"]:
        raise SystemExit(f"{potential.name}: other weights here than in the process that asks")
    while True:
        request = receive(requests)
        try:
            done = timed_relax(to_crystals(request), potential, **noted(request["settings"]))
            answer: Message = {
                **from_relaxation(done.relaxation),
                "seconds": np.array([done.seconds, done.inside]),
            }
        except Exception as error:  # the parent raises it
            answer = {"error": note(f"{type(error).__name__}: {error}")}
        send(answers, answer)


if __name__ == "__main__":
    main()

"""Metrics beside the ledger: a JSONL file, and optionally TensorBoard and Weights & Biases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from anchor.errors import MissingDependencyError
from anchor.search.campaign import StepReport
from anchor.search.ledger import Ledger
from anchor.writing import replace_file

Logger = Callable[[StepReport], None]
METRICS = "metrics.jsonl"


def metrics_line(
    step: int, structures: int, metrics: Mapping[str, float], seconds: Mapping[str, float]
) -> str:
    """A step as one line of metrics.jsonl: learning metrics and seconds by part."""
    return json.dumps({"step": step, "structures": structures, **metrics, "seconds": dict(seconds)}) + "\n"


def jsonl_logger(ledger: Ledger, path: Path) -> Logger:
    """Writes the stored steps to `path`, then appends every new one as it comes."""
    rows = ledger.step_rows()
    lines = (metrics_line(row["step"], row["structures"], row["metrics"], row["seconds"]) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    if rows or path.exists():  # a disk that fills up now leaves no empty file
        replace_file(path, "".join(lines))

    def log(report: StepReport) -> None:
        with path.open("a") as file:
            file.write(metrics_line(report.step, report.structures, report.metrics, report.seconds))

    return log


def make_loggers(names: Sequence[str], folder: Path) -> list[Logger]:
    """One callable per name, to be given every step's report."""
    check_loggers(names)
    makers = {"tensorboard": _tensorboard, "wandb": _wandb}
    return [makers[name](folder) for name in names]


def check_loggers(names: Iterable[str]) -> None:
    """Refuse a logger whose package is missing, before anything is started.

    Raises:
        MissingDependencyError: Naming it.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingDependencyError(
                f"run.loggers names {name}, which is not installed", "pip install 'anchor-crystals[loggers]'"
            )


def scalars(report: StepReport) -> dict[str, float]:
    """A step's numbers by name: learning metrics, seconds by part, counts of the step."""
    counts = {
        "step/valid": sum(row["valid"] for row in report.rows),
        "step/proposed": len(report.rows),
    }
    metrics = {f"learning/{name}": value for name, value in report.metrics.items()}
    return metrics | {f"seconds/{name}": s for name, s in report.seconds.items()} | counts


def _tensorboard(folder: Path) -> Logger:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(report: StepReport) -> None:
        for name, value in scalars(report).items():
            writer.add_scalar(name, value, report.structures)
        writer.flush()

    return log


def _wandb(folder: Path) -> Logger:
    import wandb

    run = wandb.init(project="anchor", name=folder.name, dir=str(folder), resume="allow", id=folder.name)
    return lambda report: run.log(scalars(report), step=report.structures)

"""Optional metric loggers beside the ledger: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from anchor.errors import MissingDependencyError
from anchor.search.campaign import StepReport

Logger = Callable[[StepReport], None]


def make_loggers(names: Iterable[str], folder: Path) -> list[Logger]:
    """One callable per name, to be given every step's report.

    Raises:
        MissingDependencyError: The logger's package is not installed.
    """
    makers = {"tensorboard": _tensorboard, "wandb": _wandb}
    return [makers[name](folder) for name in names]


def scalars(report: StepReport) -> dict[str, float]:
    """A step's numbers by name: learning metrics, seconds by part, counts of the step."""
    counts = {
        "step/valid": sum(row["valid"] for row in report.rows),
        "step/proposed": len(report.rows),
    }
    metrics = {f"learning/{name}": value for name, value in report.metrics.items()}
    return metrics | {f"seconds/{name}": s for name, s in report.seconds.items()} | counts


def _tensorboard(folder: Path) -> Logger:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingDependencyError(
            "run.loggers names tensorboard, which is not installed", "pip install 'anchor-crystals[loggers]'"
        ) from error
    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(report: StepReport) -> None:
        for name, value in scalars(report).items():
            writer.add_scalar(name, value, report.structures)
        writer.flush()

    return log


def _wandb(folder: Path) -> Logger:
    try:
        import wandb
    except ImportError as error:
        raise MissingDependencyError(
            "run.loggers names wandb, which is not installed", "pip install 'anchor-crystals[loggers]'"
        ) from error
    run = wandb.init(project="anchor", name=folder.name, dir=str(folder), resume="allow", id=folder.name)
    return lambda report: run.log(scalars(report), step=report.structures)

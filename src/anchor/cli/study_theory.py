"""`anchor study tilt|decomposition|covariance`: the paper's argument measured on samples and evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchor.cli.common import JsonFlag, Seed, emit, print_table
from anchor.errors import InputError

Evaluation = Annotated[Path, typer.Argument(help="Folder of `anchor evaluate`.")]


def tilt(
    before: Annotated[str, typer.Argument(help="Source as of `anchor evaluate`: generator:kldm-dng.")],
    after: Annotated[str, typer.Argument(help="The same after fine-tuning: generator:runs/ddpo.")],
    n: Annotated[int, typer.Option("-n", min=4, max=1_000_000, help="How many compositions of each.")] = 1000,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """What fine-tuning made of a composition marginal: divergence, and mass outside the usual 99.9 %.

    Of what was sampled before (files, evaluations) BEFORE is split in halves.

    Example: anchor study tilt generator:kldm-dng generator:runs/ddpo -n 1000
    """
    from anchor.chemistry.composition import parse_formula
    from anchor.evaluate.sources import Source, find_source
    from anchor.studies.marginals import tilt as measure

    def drawn(source: Source, seed: int) -> list[Any]:
        seeds = source.seeds or (seed,)
        cells = source.draw(seeds[0] if seed not in seeds else seed, n).texts("cell")
        return [parse_formula(cell) for cell in cells if cell]

    first, second = find_source([before]), find_source([after])
    pretrained = drawn(first, seed)
    if first.seeds is None:
        again = drawn(first, seed + 1)
    else:
        pretrained, again = pretrained[::2], pretrained[1::2]
    tuned = drawn(second, seed)
    if min(map(len, (pretrained, again, tuned))) < 2:
        raise InputError("there are too few compositions to compare", "ask for more (-n)")
    rows = measure(pretrained, again, tuned, seed=seed)
    if json:
        emit({"before": first.name, "after": second.name, "n": len(tuned), "views": rows})
        return
    print_table(
        ["view", "D_KL ≥, nats", "95 %", "by chance", "outside 99.9 %", "by chance"],
        (
            [
                row["view"],
                f"{row['nats']:.3f}",
                f"{row['low']:.3f} – {row['high']:.3f}",
                f"{row['chance']:.3f} (< {row['chance_high']:.3f})",
                f"{100 * row['outside']:.1f} %",
                f"{100 * row['outside_before']:.1f} %",
            ]
            for row in rows
        ),
        title=f"{second.name} against {first.name}, {len(tuned)} and {len(pretrained)} compositions",
    )


def decomposition(
    dng: Evaluation,
    dng_csp: Evaluation,
    search: Evaluation,
    criterion: Annotated[
        Literal["msun", "sun", "metastable", "stable", "valid"], typer.Option(help="What counts as success.")
    ] = "msun",
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Successes of a generator, of its compositions with a prior, and of a policy with that prior.

    Example: anchor study decomposition eval/kldm-dng eval/kldm-dng-csp eval/search --criterion sun
    """
    from anchor.evaluate.outputs import FinishedEvaluation
    from anchor.studies.decomposition import decompose

    found = decompose(
        *(FinishedEvaluation.load(path) for path in (dng, dng_csp, search)), criterion=criterion, seed=seed
    )
    if json:
        emit(found)
        return
    shares = [
        [
            row["allocation"],
            row["label"],
            f"{100 * row['share']:.1f} ({row['successes']}/{row['n']})",
            f"{100 * row['low']:.1f} – {100 * row['high']:.1f}",
        ]
        for row in found["rows"]
    ]
    differences = [
        [
            part["of"],
            "paired" if part["paired"] else "independent",
            f"{100 * part['value']:+.1f}",
            f"{100 * part['low']:+.1f} – {100 * part['high']:+.1f}",
        ]
        for part in (found["structures"], found["compositions"])
    ]
    print_table(["allocation", "of", f"{criterion} %", "95 %"], [*shares, *differences])


def covariance(
    prior: Annotated[
        str, typer.Option(help="Name of a prior, as in `anchor prior list`; one with likelihoods.")
    ] = "wyckoff",
    n: Annotated[int, typer.Option("-n", min=2, help="How many compositions of the test split.")] = 100,
    each: Annotated[int, typer.Option(min=2, help="Crystals of each composition.")] = 8,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Whether novelty pulls against a prior: the covariance of log p(x|c) and novelty.

    Example: anchor study covariance -n 100 --each 8
    """
    from anchor.studies.likelihoods import covariance_summary, draw, known_compositions

    found = covariance_summary(
        draw(known_compositions(n, seed=seed), each, seed=seed, prior=prior), seed=seed
    )
    if json:
        emit(found)
        return
    print_table(
        ["what", "value"],
        ([name.replace("_", " "), "–" if value is None else f"{value:.4g}"] for name, value in found.items()),
        title=f"Cov(log p(x|c), novelty) of {prior}, nats",
    )

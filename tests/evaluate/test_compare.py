"""Comparing: groups, ranks, formats, pairs."""

import csv
import io
from pathlib import Path

import pytest
from toy_protocol import ToyProtocol

from anchor.errors import InputError
from anchor.evaluate.compare import compare, paired_differences
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.render import difference_rows, document, latex, markdown, stacked_cells, table_csv
from anchor.evaluate.run import evaluate
from anchor.evaluate.sources import find_source
from anchor.priors import load_prior

SOURCE = "formulas:NaCl,MgO,ZnS,CaF2,LiF,NaCl"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FinishedEvaluation]:
    """The same compositions by two priors, and once under another gate."""
    folder = tmp_path_factory.mktemp("three")
    made = {}
    for name, prior, limit in (("a", "templates", 15.0), ("b", "random", 15.0), ("c", "random", 14.0)):
        made[name] = evaluate(
            find_source([SOURCE]), ToyProtocol(limit=limit), folder / name, n=None, seeds=[0, 1],
            prior=load_prior(prior), label=f"{name} & {prior}",
        )  # fmt: skip
    return made


def faked(evaluation: FinishedEvaluation, label: str, **means: float | None) -> FinishedEvaluation:
    """An evaluation with other means."""
    metrics = {
        name: {**found, "mean": means.get(name, found["mean"])}
        for name, found in evaluation.summary["metrics"].items()
    }
    return FinishedEvaluation(evaluation.folder, {**evaluation.summary, "label": label, "metrics": metrics})


def test_other_footers_are_never_ranked_together(three: dict[str, FinishedEvaluation]) -> None:
    groups = compare(list(three.values()))
    assert [[e.label[0] for e in g.evaluations] for g in groups] == [["a", "b"], ["c"]]
    assert all(cell.rank == 0 for row in groups[1].cells for cell in row)
    assert groups[0].footer["gate"] != groups[1].footer["gate"]


def test_best_and_second_best_with_ties_and_gaps(three: dict[str, FinishedEvaluation]) -> None:
    base = three["a"]
    rows = [
        faked(base, name, dense=dense, volume=volume)
        for name, dense, volume in (("w", 0.5, 20.0), ("x", 0.7, None), ("y", 0.7, 12.0), ("z", 0.1, 13.0))
    ]
    (group,) = compare(rows)
    names = [metric.name for metric in group.metrics]
    dense = [row[names.index("dense")].rank for row in group.cells]
    volume = [row[names.index("volume")].rank for row in group.cells]
    assert dense == [2, 1, 1, 0]  # high is good, equal ones share
    assert volume == [0, 0, 1, 2]  # low is good, a missing value is never ranked
    assert {row[names.index("failed")].rank for row in group.cells} == {0}  # not to be ranked


def test_numbers_are_means_with_spread_and_counts(three: dict[str, FinishedEvaluation]) -> None:
    found = three["a"].summary["metrics"]["unique"]
    assert (found["pooled"]["k"], found["pooled"]["n"]) == (10, 12)
    assert found["mean"] == pytest.approx(5 / 6)
    assert found["std"] == pytest.approx(0)
    assert "83.3 ± 0.0 (10/12)" in markdown(compare([three["a"]]))


def test_formats(three: dict[str, FinishedEvaluation]) -> None:
    groups = compare(list(three.values()))
    text = markdown(groups)
    assert text.count("| --- |") == 2
    assert "**" in text
    assert "gate: below 14.0 Å³" in text
    tex = latex(groups)
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert r"a \& templates" in tex
    assert r"\textbf{" in tex
    lines = list(csv.DictReader(io.StringIO(table_csv(groups))))
    assert len(lines) == 3 * 4
    assert {line["gate"] for line in lines} == {"below 15.0 Å³", "below 14.0 Å³"}
    rows = document(groups)[0]["rows"]
    assert rows[0]["metrics"]["unique"]["k"] == 10
    assert rows[0]["seeds"] == [0, 1]


def test_terminal_cells_are_narrow_and_two_rows_have_no_second_best(
    three: dict[str, FinishedEvaluation],
) -> None:
    (group,) = compare([three["a"], three["b"]])
    rows = stacked_cells(group)
    assert rows[0][:2] == ["a & templates", "12"]
    assert rows[0][3] == "83.3*\n±0.0\n10"
    assert max(len(line) for row in rows for cell in row[1:] for line in cell.split("\n")) <= 7
    assert {cell.rank for row in group.cells for cell in row} <= {0, 1}


def test_paired_differences_count_pairs(three: dict[str, FinishedEvaluation]) -> None:
    one, other = three["a"], three["b"]
    found = paired_differences(one, other)
    a, b = ([row["dense"] for row in e.rows()] for e in (one, other))
    assert found["dense"].n == 12
    assert found["dense"].value == pytest.approx((sum(a) - sum(b)) / 12)
    assert found["dense"].first_only == sum(x and not y for x, y in zip(a, b, strict=True))
    assert found["unique"].value == found["unique"].low == found["unique"].high == 0  # the same compositions
    assert found["volume"].low < found["volume"].value < found["volume"].high
    assert "failed" not in found  # not a column
    labels = [row[0] for row in difference_rows(one.metrics, found)]
    assert labels == ["Dense", "Unique", "Volume"]


def test_what_is_no_pair_is_refused(three: dict[str, FinishedEvaluation], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="judged differently: gate"):
        paired_differences(three["b"], three["c"])
    options = {"n": None, "prior": load_prior("random")}
    fewer = evaluate(find_source([SOURCE]), ToyProtocol(), tmp_path / "fewer", seeds=[0], **options)
    with pytest.raises(InputError, match="12 rows"):
        paired_differences(three["a"], fewer)
    others = evaluate(
        find_source([SOURCE.replace("ZnS", "ZnO")]),
        ToyProtocol(),
        tmp_path / "others",
        seeds=[0, 1],
        **options,
    )
    with pytest.raises(InputError, match=r"2 of 12 rows are of different compositions.*ZnS and ZnO"):
        paired_differences(three["a"], others)

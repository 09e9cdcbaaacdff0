"""From finished cells to the tables of the paper, ours beside theirs."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pymatgen.core import Element

from anchor.chemistry.formula import parse_amounts
from anchor.evaluate.compare import Cell, compare
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.evaluate.protocol import Metric
from anchor.evaluate.render import MISSING, footer_text, number, tex
from anchor.outcomes.tally import TALLY_COLUMNS, Tally, split_time
from anchor.search.ledger import Ledger
from anchor.statistics import wilson_interval
from anchor.studies.cells import Results
from anchor.studies.declaration import CELL_FREE, Row, Study, Table, paper_tables
from anchor.studies.kinds import Given, Searched
from anchor.studies.search_figure import late

FIFTHS = 5
INTERVALS = (
    "Ours: percent (count; 95 % interval of Wilson). The paper: percent ± standard deviation over seeds."
)


def make_table(study: Study, results: Results) -> Table:
    """The table of a study as far as its cells are finished."""
    table = (study.table or rates)(study, results)
    missing = [f"{row.label}: {row.needs}" for row in study.rows if row.cell is None]
    budgets = [f"Ours ({results.scale.name}): {results.scale.budget}."] if study.rows else []
    if any(not isinstance(row.cell, (Given, Searched)) for row in study.made):
        budgets.append(f"Ours, trained beside policies: {results.scale.training_budget}.")
    if study.paper is not None:
        stated = paper_tables()[study.paper]
        budgets.append(f"The paper ({study.paper}, {stated['what']}): {stated['budget']}.")
    others = ["Rows of the paper that others made: " + "; ".join(missing) + "."] if missing else []
    return replace(table, notes=[*table.notes, *others], budgets=budgets)


def rates(study: Study, results: Results) -> Table:
    """A column per metric: ours with counts and intervals, the paper's row below."""
    rows, footers, values = [], [], []
    for row in study.rows:
        done = results.evaluation(row)
        ours = shown(done, study.columns) if done is not None else [MISSING] * len(study.columns)
        n = MISSING if done is None else str(done.summary["read"]["rows"])
        rows += _above_the_paper(study, row, [n, *ours], [MISSING, *stated(study, row, study.columns)])
        values.append(_values(study, row, done))
        if done is not None and done.footer not in footers:
            footers.append(done.footer)
    notes = [f"Judged by: {footer_text(footer)}." for footer in footers]
    return Table(["row", "N", *study.columns], rows, [*notes, INTERVALS], values=values)


def _values(study: Study, row: Row, done: FinishedEvaluation | None) -> dict[str, Any]:
    """A row as numbers: shares of 1 with counts and intervals, and what the paper states."""
    ours = None
    if done is not None:
        by_label = _cells(done)
        ours = {name: vars(by_label[name][1]) for name in study.columns if name in by_label}
    paper = None
    if study.paper is not None and row.paper is not None:
        paper = paper_tables()[study.paper]["rows"][row.paper]
    return {"row": row.label, "ours": ours, "paper": paper}


def shown(done: FinishedEvaluation, columns: Sequence[str]) -> list[str]:
    """Metrics of an evaluation by their labels, with counts and intervals."""
    by_label = _cells(done)
    return [_figure(*by_label[name]) if name in by_label else MISSING for name in columns]


def _cells(done: FinishedEvaluation) -> dict[str, tuple[Metric, Cell]]:
    (group,) = compare([done], every_metric=True)
    return {m.label: (m, c) for m, c in zip(group.metrics, group.cells[0], strict=True)}


def _figure(metric: Metric, cell: Cell) -> str:
    """'8.5 (17; 5.4–13.2)', with several seeds '8.5 ± 1.0 (51; 6.5–11.1)', '12', or '0.123'."""
    text = number(metric, cell, counts=False)
    if metric.show != "percent" or cell.low is None or cell.high is None:
        return text
    return f"{text} ({cell.k}; {100 * cell.low:.1f}–{100 * cell.high:.1f})"


def _above_the_paper(study: Study, row: Row, ours: list[str], theirs: list[str]) -> list[list[str]]:
    """Our line and, where the paper has one, its line."""
    paper = [] if study.paper is None or row.paper is None else [[f"{row.label}, the paper", *theirs]]
    return [[row.label, *ours], *paper] if row.cell is not None else paper


def stated(study: Study, row: Row, columns: Sequence[str]) -> list[str]:
    """Values of the paper, '–' where it has none."""
    if study.paper is None or row.paper is None:
        return [MISSING] * len(columns)
    values = paper_tables()[study.paper]["rows"][row.paper]
    aliases = {"Known": "MP-20"}
    return [plain(values.get(aliases.get(name, name))) for name in columns]


def plain(value: Any) -> str:
    if value is None:
        return MISSING
    return f"{value[0]:g} ± {value[1]:g}" if isinstance(value, list) else f"{value:g}"


def late_window(study: Study, results: Results) -> Table:
    """Rates under the training reward over the last structures of each search (tab:stage1-late-window)."""
    columns = ("Valid", "Unique", "SUN", "MSUN")
    rows = []
    for row in study.rows:
        ours = [MISSING] * (1 + len(columns))
        if (ledger := results.ledger(row)) is not None:
            tally = Tally().add_all(late(list(ledger.rows(TALLY_COLUMNS))))
            counts = [tally.counts[name.lower()] for name in columns]
            ours = [str(tally.proposed), *(counted(k, tally.proposed) for k in counts)]
        rows += _above_the_paper(study, row, ours, [MISSING, *stated(study, row, columns)])
    own = "The last tenth of each search. Energies are those of its own potential: rows are not comparable."
    return Table(["row", "structures", *columns], rows, [own, INTERVALS])


def novelty_branches(study: Study, results: Results) -> Table:
    """Which index held the formulas, and collisions with known formulas, by fifths of each search."""
    branches = ("bootstrap", "reference", "history", "both")
    rows = []
    for row in study.made:
        ledger = results.ledger(row)
        if ledger is None:
            continue
        found = list(ledger.rows(("formula", "valid", "novelty_branch", "known_in")))
        seen: set[str] = set()
        for fifth, part in enumerate(np.array_split(np.arange(len(found)), FIFTHS), start=1):
            valid = [found[i] for i in part if found[i]["valid"]]
            held = Counter(r["novelty_branch"] for r in valid)
            again = 0
            for r in valid:
                again += r["formula"] in seen
                seen.add(r["formula"])
            known = sum(r["known_in"] != "" for r in valid)
            counts = (fifth, len(valid), *(held[name] for name in branches), known, again)
            rows.append([row.label, *map(str, counts)])
    head = ["row", "fifth", "valid", "neither", *branches[1:], "known formulas", "revisited formulas"]
    return Table(head, rows, ["Without adaptive novelty the history is kept, too, and has no say."])


def budgets(study: Study, results: Results) -> Table:
    """Structures and where the time went (tab:run-budget); wall time of this machine."""
    head = ["row", "structures", "structures, paper", "relaxed", "seconds", "potential %", "s per structure"]
    rows = []
    for row in study.rows:
        ledger = results.ledger(row)
        (theirs,) = stated(study, row, ("Structures",))
        if ledger is None:
            rows.append([row.label, MISSING, theirs, *[MISSING] * 4])
            continue
        structures, relaxed, spent = spending(ledger)
        total = sum(spent.values())
        share = 100 * spent.get("potential", 0.0) / total
        rows.append(
            [row.label, str(structures), theirs, str(relaxed), f"{total:.0f}", f"{share:.0f}",
             f"{total / structures:.3f}"]
        )  # fmt: skip
    return Table(head, rows, ["The paper's runs took seven days on one A100 each (168 GPU hours)."])


def spending(ledger: Ledger) -> tuple[int, int, dict[str, float]]:
    """Structures, relaxations and seconds by part of a campaign."""
    spent: Counter[str] = Counter()
    for step in ledger.step_rows():
        spent.update(split_time(step["seconds"]))
    relaxed = [row["relaxation"] for row in ledger.rows(("relaxation",))]
    return len(relaxed), sum(r is not None for r in relaxed), dict(spent)


def gates(study: Study, results: Results) -> Table:
    """Each row's structures under three gates (tab:gates), and what the search drew in its last steps."""
    columns = ("Valid", "SUN", "MSUN")
    rows = []
    for row in study.rows:
        done, ledger = results.evaluation(row), results.ledger(row)
        gate = {"lemat": "LeMat-GenBench"}.get(row.judging.protocol, "internal gate")
        if dict(row.judging.options).get("gate") == "lemat":
            gate = "LeMat gate"
        ours = [MISSING] * len(columns) if done is None else shown(done, columns)
        theirs = stated(study, row, [f"{gate}: {c}" for c in columns])
        drawn = (MISSING, MISSING) if ledger is None else _drawn(ledger)
        rows += _above_the_paper(study, row, [gate, *ours, *drawn], [gate, *theirs, MISSING, MISSING])
    late = "All-metal share and atoms per formula: the last tenth of each search."
    return Table(["row", "scored by", *columns, "all-metal", "atoms per formula"], rows, [late, INTERVALS])


def _drawn(ledger: Ledger) -> tuple[str, str]:
    """All-metal share and mean atoms per formula unit of the last tenth of a search."""
    last = [parse_amounts(row["formula"]) for row in late(list(ledger.rows(("formula",))))]
    metals = sum(all(Element(e).is_metal for e in amounts) for amounts in last)
    return counted(metals, len(last)), f"{np.mean([sum(a.values()) for a in last]):.1f}"


CAPS = (100, 400)
"""Steps of a relaxation in training and in evaluation."""


def relaxation_budget(study: Study, results: Results) -> Table:
    """Converged within 100 and within 400 steps, read off the same relaxations (tab:relax-budget)."""
    columns = [f"{cap} steps: {what}" for cap in CAPS for what in ("converged", "s/structure")]
    rows, steps = [], {}
    for row in study.rows:
        ours = [MISSING] * (1 + len(columns))
        if (done := results.evaluation(row)) is not None:
            relaxed = [r for r in done.rows() if r["relaxation"] is not None]
            steps[row.label] = [sum(min(r["relaxation_steps"], cap) for r in relaxed) for cap in CAPS]
            ours = [str(len(relaxed))]
            for cap, total in zip(CAPS, steps[row.label], strict=True):
                ended = sum(r["relaxation"] == "converged" and r["relaxation_steps"] <= cap for r in relaxed)
                ours += [counted(ended, len(relaxed)), f"{total / max(1, len(relaxed)):.1f} steps"]
        rows += _above_the_paper(study, row, ours, [MISSING, *stated(study, row, columns)])
    head = ["row", "relaxed", *(f"{cap} steps: {what}" for cap in CAPS for what in ("converged", "cost"))]
    notes = ["Cost: ours is the mean number of steps, the paper's seconds per structure on a GPU."]
    free = [name for name in steps if name.endswith(CELL_FREE)]
    if free and len(steps) == len(study.made):
        more = [
            sum(steps[name][i] for name in free)
            / max(1, sum(steps[name][i] for name in steps if name not in free))
            for i in range(len(CAPS))
        ]
        notes.append(f"With the cell free, all rows take {more[0]:.2f} and {more[1]:.2f} times the steps.")
    notes.append("Our optimiser is not ASE's BFGS: see `anchor evaluate --optimizer`.")
    return Table(head, rows, [*notes, INTERVALS])


def counted(k: int, n: int) -> str:
    """'12.5 (25; 8.6–17.8)': percent, count and Wilson's 95 % interval."""
    if not n:
        return MISSING
    low, high = wilson_interval(np.array([k]), np.array([n]))
    return f"{100 * k / n:.1f} ({k}; {100 * low[0]:.1f}–{100 * high[0]:.1f})"


def as_markdown(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    above = "".join(f"**{budget}**\n\n" for budget in table.budgets)
    below = "".join(f"- {note}\n" for note in table.notes)
    return above + body + "\n" + (f"\n{below}" if below else "")


def as_csv(table: Table) -> str:
    stream = io.StringIO()
    lines = [[*row, *([" ".join(table.budgets)] if table.budgets else [])] for row in table.rows]
    head = [*table.head, *(["budgets"] if table.budgets else [])]
    csv.writer(stream, lineterminator="\n").writerows([head, *lines])
    return stream.getvalue()


def as_latex(table: Table) -> str:
    body = [" & ".join(tex(cell) for cell in row) + r" \\" for row in table.rows]
    return (
        "\n".join(
            [
                *(f"% {note}" for note in (*table.budgets, *table.notes)),
                rf"\begin{{tabular}}{{@{{}}l{'r' * (len(table.head) - 1)}@{{}}}}",
                r"\toprule",
                " & ".join(tex(cell) for cell in table.head) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )
        + "\n"
    )


def unfinished(study: Study, results: Results) -> list[Row]:
    """Rows that could be made here and are not finished."""
    return [
        row
        for row in study.made
        if (results.evaluation(row) if study.evaluated else results.ledger(row)) is None
    ]

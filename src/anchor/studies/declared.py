"""Every study: the paper's tables and figures, and what we add to them."""

from __future__ import annotations

from anchor.errors import InputError, nearest
from anchor.studies import tables
from anchor.studies.declaration import (
    CELL_FREE,
    FIXED,
    FREE,
    LEMAT,
    LEMAT_GATE,
    LEMAT_MP,
    MATTERGEN,
    POSITIONS,
    Judging,
    Row,
    Study,
)
from anchor.studies.gate_figure import draw_gates
from anchor.studies.identities import theory_table
from anchor.studies.kinds import BACKBONES, Cell, Distilled, Generated, Given, Searched
from anchor.studies.paper_rows import BASE_MODEL, EXPLORATION, GATE, INVALID_PENALTY, REWARD_TRAINED
from anchor.studies.search_figure import draw_searches
from anchor.studies.theory_page import draw_theory

FULL = Searched()
PRIORS = ("templates-all", "wyckoff", "crystalite", "omatg", "kldm")
IN_PAPER = {
    "kldm": "Trained on KLDM",
    "crystalite": "Trained on KLDM → Crystalite",
    "omatg": "Trained on KLDM → OMatG",
}
DNG = {"Crystalite-DNG": "crystalite-dng", "KLDM-DNG": "kldm-dng"}
PUBLISHED = ("MatterGen-MP", "KLDM-x_0(D)", "Crystalite", "MatterGen+REPA")
"""Rows of tab:mattergen_dng that others published."""
CSP = {
    "KLDM-CSP": ("kldm", ("relaxed", "unrelaxed", "rendered")),
    "Crystalite-CSP": ("crystalite", ("relaxed",)),
}
"""Backbones and the arms that the paper fine-tunes."""
ARMS = {
    "Released checkpoint": "start",
    "FT: MP-20 only (ctl)": "control",
    "FT: MP-20 + ANCHOR": "relaxed",
    "FT: MP-20 + ANCHOR, unrelaxed cells": "unrelaxed",
    "FT: MP-20 + Crystalite-rendered ANCHOR": "rendered",
    "From scratch: MP-20 only (ctl)": "scratch-control",
    "From scratch: MP-20 + ANCHOR": "scratch",
}
"""Rows of tab:app-ft and our names of their arms."""

_base = tuple(Row(name, Searched(s), FIXED, name) for name, s in BASE_MODEL.items())
_penalties = (*INVALID_PENALTY.items(), ("r_inv = -0.2", ()))
_exploration = {"full method": (), **EXPLORATION}


def _generators(judging: Judging, *, tuned: bool = True) -> tuple[Row, ...]:
    """Both generators: their crystals, and their compositions with the crystals of their backbone."""
    rows = []
    for label, name in DNG.items():
        rewards = ((None, ""), ("mean", " + FT (mean)"), ("bal", " + FT (bal.)"))[: 3 if tuned else 1]
        for backbone, arrow in ((None, ""), (BACKBONES[name], " → CSP")):
            for reward, more in rewards:
                by = Judging(backbone, judging.protocol, judging.options)
                text = f"{label}{more}{arrow}"
                rows.append(Row(text, Generated(name, reward), by, text))
    return tuple(rows)


def _arms(judging: Judging) -> tuple[Row, ...]:
    """Every backbone and arm of tab:app-ft."""
    own = Judging(None, judging.protocol, judging.options)
    rows = []
    for label, (prior, tuned) in CSP.items():
        for text, arm in ARMS.items():
            arms = ("scratch",) if arm.startswith("scratch") else tuned
            if arm in ("start", "control", "scratch-control", *arms):
                rows.append(Row(f"{label}: {text}", Distilled(prior, arm, arms), own, f"{label}: {text}"))
    return tuple(rows)


def _where(judging: Judging) -> tuple[Row, ...]:
    """Rows of tab:internal and tab:mattergen_dng."""

    def by(prior: str | None) -> Judging:
        return Judging(prior, judging.protocol, judging.options)

    return (
        Row("random formulas", Given("random"), judging, "Random formulas"),
        Row("charge-neutral formulas", Given("neutral"), judging, "Enumerated charge-neutral"),
        Row("screened formulas (ours)", Given("screened"), judging),
        *_generators(judging),
        *(Row(f"search → {prior}", FULL, by(prior), IN_PAPER.get(prior)) for prior in PRIORS),
        *(Row(name, Searched(settings), by(None), name) for name, settings in REWARD_TRAINED.items()),
        *(
            Row(f"{label} (step-matched control){data}", Distilled(prior, arm, arms), by(None),
                f"{label} (step-matched control){data}")
            for label, (prior, arms) in CSP.items()
            for data, arm in (("", "control"), (" + ANCHOR data", "relaxed"))
        ),
    )  # fmt: skip


def _gate_rows() -> tuple[Row, ...]:
    """Trained with each gate, scored by three."""
    trained = (
        ("trained with the paper's gate", FULL, "ANCHOR → KLDM-CSP"),
        ("trained with LeMat's gate", Searched(GATE["LeMat-GenBench gate"]), "KLDM backbone"),
    )
    scored = (FREE, LEMAT_GATE, LEMAT_MP)
    rows = [Row(label, cell, judging, paper) for label, cell, paper in trained for judging in scored]
    own = (Judging(None, judging.protocol, judging.options) for judging in scored)
    dng = [Row("Crystalite-DNG", Generated("crystalite-dng"), judging, "Crystalite-DNG") for judging in own]
    return (*rows, *dng)


def _lemat(judging: Judging) -> tuple[Row, ...]:
    """Rows of tab:app-lemat-mp20 and tab:app-lemat-bulk."""
    own = Judging(None, judging.protocol, judging.options)
    return (
        Row("search", FULL, judging, "ANCHOR → KLDM-CSP"),
        Row("charge-neutral formulas", Given("neutral"), judging),
        Row("screened formulas (ours)", Given("screened"), judging),
        *(Row(label, Generated(name), own, label) for label, name in DNG.items()),
    )


def _relaxed_both_ways() -> tuple[Row, ...]:
    """Rows of tab:relax-budget, and of the same crystals for other sources."""
    sets: tuple[tuple[str, Cell, str | None, str | None], ...] = (
        ("search → templates-all", FULL, "templates-all", "ANCHOR → KLDM-CSP"),
        ("search → crystalite", FULL, "crystalite", "ANCHOR → Crystalite-CSP"),
        ("Crystalite-DNG", Generated("crystalite-dng"), None, "Crystalite-DNG"),
        ("KLDM-DNG", Generated("kldm-dng"), None, "KLDM-DNG"),
        ("policy that ships", Given("default"), "templates-all", None),
        ("charge-neutral", Given("neutral"), "templates-all", None),
    )
    rows = []
    for label, cell, prior, paper in sets:
        for how, options in ((POSITIONS, FIXED.options), (CELL_FREE, FREE.options)):
            theirs = None if paper is None else f"{paper}, {how}"
            rows.append(Row(f"{label}, {how}", cell, Judging(prior, options=options), theirs))
    return tuple(rows)


STUDIES = {
    study.name: study
    for study in (
        Study(
            "base-model", "Group size and potential of the training", "tab:stage1-eval", _base,
            ("Valid", "Unique", "SUN", "MSUN"), draw=draw_searches,
            claim="G = 32 with MatterSim-1M is best: 38.5 % MSUN, 18.1 % SUN.",
        ),
        Study(
            "late-window", "The end of each training run", "tab:stage1-late-window",
            tuple(Row(row.label, row.cell, row.judging, row.paper) for row in _base),
            table=tables.late_window, evaluated=False,
            claim="The same cell is first under its own training reward.",
        ),
        Study(
            "invalid-penalty", "The penalty of invalid structures", "tab:invalid-penalty",
            tuple(Row(name, Searched(settings), FIXED, name) for name, settings in _penalties),
            ("Valid", "Bond", "Charge", "Unique", "SUN", "MSUN"), draw=draw_searches,
            claim="Validity hardly depends on it; discovery does, and −0.2 is best.",
        ),
        Study(
            "exploration", "Which mechanism keeps a search from collapsing", "tab:explore-ablation",
            tuple(Row(name, Searched(s), FREE, name) for name, s in _exploration.items()),
            ("Valid", "Unique", "Novel", "Meta", "Stable", "MSUN", "SUN", "Known"), draw=draw_searches,
            claim="Adaptive novelty alone keeps uniqueness; without any mechanism 0.7 % are unique.",
        ),
        Study(
            "exploration-fixed", "The same with the lattice fixed", "tab:app-explore-fixed",
            tuple(Row(name, Searched(s), FIXED, name) for name, s in _exploration.items()),
            ("Valid", "Unique", "Stable", "Meta", "MSUN", "SUN"),
            claim="The order of SUN is that of the free lattice.",
        ),
        Study(
            "ladder", "What compositions alone are worth", "tab:kldm-ladder",
            (
                Row("random formulas", Given("random"), FIXED, "KLDM + random formulas"),
                Row("charge-neutral formulas", Given("neutral"), FIXED, "KLDM + enumerated charge-neutral"),
                Row("screened formulas (ours)", Given("screened"), FIXED),
                Row("policy that ships (ours)", Given("default"), FIXED),
                Row("search", FULL, FIXED, "ANCHOR (selected policy)"),
            ),
            ("Valid", "Unique", "SUN", "MSUN"),
            claim="A policy learns more than charge neutrality: 38.5 against 3.1 % MSUN.",
        ),
        Study(
            "where", "Where adaptation acts (Table 2)", "tab:internal", _where(FREE),
            ("Valid", "Unique", "Novel", "Meta", "Stable", "MSUN", "SUN", "Known"),
            claim="Compositions limit discovery: policy ≫ DNG ≈ DNG → CSP; rewards improve no prior.",
        ),
        Study(
            "mattergen", "The same under MatterGen's protocol (Table 3)", "tab:mattergen_dng",
            (*(Row(name, None, MATTERGEN, name) for name in PUBLISHED), *_where(MATTERGEN)),
            ("Unique", "Novel", "Meta", "Stable", "E_hull", "RMSD", "MSUN", "SUN"),
            claim="41.3 % MSUN against 29.2 % for the best published model.",
        ),
        Study(
            "transfer", "One policy, every prior", "tab:internal",
            tuple(
                Row(f"shipped policy → {p}", Given("default"), Judging(p), IN_PAPER.get(p)) for p in PRIORS
            ),
            claim="A policy transfers to other priors without retraining.",
        ),
        Study(
            "gates", "Gates that a search is trained with and scored by", "tab:gates", _gate_rows(),
            table=tables.gates, draw=draw_gates,
            claim="A policy exploits its gate: with LeMat's it proposes 80 % all-metal formulas.",
        ),
        Study(
            "lemat", "LeMat-GenBench; ours on the Materials Project's hull", "tab:app-lemat-mp20",
            _lemat(LEMAT_MP), ("Valid", "Unique", "Novel", "Meta", "Stable", "E_hull", "MSUN", "SUN"),
            claim="On-hull rates fall from 13.6 to 0.4 % when potential, relaxation and hull change.",
        ),
        Study(
            "lemat-bulk", "The same on the larger hull; ours of both databases", "tab:app-lemat-bulk",
            _lemat(LEMAT), ("Valid", "Unique", "Novel", "Meta", "Stable", "E_hull", "MSUN", "SUN"),
            claim="On the larger hull nothing of the search is stable, and 2.9 % are metastable.",
        ),
        Study(
            "lattice", "Lattice fixed or free", "tab:app-internal",
            (
                Row("search, lattice free", FULL, FREE),
                Row("search, lattice fixed", FULL, FIXED, "ANCHOR → KLDM-CSP"),
                Row("charge-neutral, lattice free", Given("neutral"), FREE),
                Row("charge-neutral, lattice fixed", Given("neutral"), FIXED),
            ),
            claim="A fixed lattice lowers every rate and changes no conclusion.",
        ),
        Study(
            "relaxation-budget", "100 relaxation steps read off 400", "tab:relax-budget",
            _relaxed_both_ways(),
            table=tables.relaxation_budget,
            claim="At 100 steps 16 % of a search's relaxations converge, at 400 steps 99 %.",
        ),
        Study(
            "csp-training", "Likelihood training of priors on a search's structures", "tab:app-ft",
            _arms(MATTERGEN), ("MSUN", "SUN"),
            claim="It helps Crystalite-CSP (14.4 → 24.5 % SUN) and not KLDM-CSP.",
        ),
        Study(
            "run-budget", "Structures, relaxations and time of every search", "tab:run-budget",
            (
                *(Row(name, Searched(s), FREE, name) for name, s in BASE_MODEL.items()),
                *(
                    Row(name, Searched(s), FREE, name.replace(" = ", "="))
                    for name, s in INVALID_PENALTY.items()
                ),
                *(Row(name, Searched(s), FREE, name) for name, s in EXPLORATION.items()),
                Row("LeMat's gate", Searched(GATE["LeMat-GenBench gate"]), FREE, "KLDM, LeMat-GenBench gate"),
                *(
                    Row(name, Searched(s), FREE, paper)
                    for (name, s), paper in zip(
                        REWARD_TRAINED.items(), ("ANCHOR shared rewards", "Stability only"), strict=True
                    )
                ),
            ),
            table=tables.budgets, evaluated=False,
            claim="Collapsed searches are cheaper per structure, because they repeat small cells.",
        ),
        Study(
            "novelty-branches", "What decides novelty, by fifths of a search", None,
            (
                Row("full method", FULL),
                Row("– adaptive novelty", Searched(EXPLORATION["– adaptive novelty"])),
            ),
            table=tables.novelty_branches, evaluated=False,
            claim="Collisions with known formulas fall from 346 in the first fifth to 3 in the last.",
        ),
        Study(
            "theory", "The argument for a frozen prior, on enumerable spaces", None, (),
            table=theory_table, evaluated=False, draw=draw_theory,
            claim="A KL-regularised fine-tune reweights what a model proposes already, by a bounded factor.",
        ),
    )
}  # fmt: skip


def find_study(name: str) -> Study:
    """A study by its name."""
    if name not in STUDIES:
        raise InputError(f"there is no study '{name}'", nearest(name, STUDIES))
    return STUDIES[name]

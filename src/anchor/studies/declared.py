"""Every study: the paper's tables and figures, and what we add to them."""

from __future__ import annotations

from anchor.errors import InputError, nearest
from anchor.studies import tables
from anchor.studies.declaration import (
    FIXED,
    FREE,
    LEMAT,
    LEMAT_GATE,
    MATTERGEN,
    Given,
    Judging,
    Row,
    Searched,
    Study,
)
from anchor.studies.identities import theory_table
from anchor.studies.paper_rows import BASE_MODEL, EXPLORATION, GATE, INVALID_PENALTY

FULL = Searched()
GENERATOR = "needs a joint generator"
TUNED = "needs a prior trained on a search's structures (anchor distill)"
TRAINED_PRIOR = "needs a prior that learns from rewards (anchor search --prior-train)"
PRIORS = ("templates-all", "wyckoff", "crystalite", "omatg", "kldm")
IN_PAPER = {
    "kldm": "Trained on KLDM",
    "crystalite": "Trained on KLDM → Crystalite",
    "omatg": "Trained on KLDM → OMatG",
}

_base = tuple(Row(name, Searched(s), FIXED, name) for name, s in BASE_MODEL.items())
_penalties = (*INVALID_PENALTY.items(), ("r_inv = -0.2", ()))
_exploration = {"full method": (), **EXPLORATION}
_dng = [
    f"{name}{how}"
    for name in ("Crystalite-DNG", "KLDM-DNG")
    for how in ("", " → CSP", " + FT (mean)", " + FT (bal.)", " + FT (mean) → CSP", " + FT (bal.) → CSP")
]
_tuned = [
    f"{name} (step-matched control){data}"
    for name in ("KLDM-CSP", "Crystalite-CSP")
    for data in ("", " + ANCHOR data")
]


def _where(judging: Judging) -> tuple[Row, ...]:
    """Rows of tab:internal and tab:mattergen_dng."""

    def by(prior: str) -> Judging:
        return Judging(prior, judging.protocol, judging.options)

    return (
        Row("random formulas", Given("random"), judging, "Random formulas"),
        Row("charge-neutral formulas", Given("neutral"), judging, "Enumerated charge-neutral"),
        Row("screened formulas (ours)", Given("screened"), judging),
        *(Row(name, None, judging, name, GENERATOR) for name in _dng),
        *(Row(f"search → {prior}", FULL, by(prior), IN_PAPER.get(prior)) for prior in PRIORS),
        Row("Shared reward", None, judging, "Shared reward", TRAINED_PRIOR),
        Row("Stability-only CSP reward", None, judging, "Stability-only CSP reward", TRAINED_PRIOR),
        *(Row(name, None, judging, name, TUNED) for name in _tuned),
    )


def _gate_rows() -> tuple[Row, ...]:
    """Trained with each gate, scored by three."""
    trained = (
        ("trained with the paper's gate", FULL, "ANCHOR → KLDM-CSP"),
        ("trained with LeMat's gate", Searched(GATE["LeMat-GenBench gate"]), "KLDM backbone"),
    )
    return tuple(
        Row(label, cell, judging, paper)
        for label, cell, paper in trained
        for judging in (FREE, LEMAT_GATE, LEMAT)
    )


STUDIES = {
    study.name: study
    for study in (
        Study(
            "base-model", "Group size and potential of the training", "tab:stage1-eval", _base,
            ("Valid", "Unique", "SUN", "MSUN"),
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
            ("Valid", "Bond", "Charge", "Unique", "SUN", "MSUN"),
            claim="Validity hardly depends on it; discovery does, and −0.2 is best.",
        ),
        Study(
            "exploration", "Which mechanism keeps a search from collapsing", "tab:explore-ablation",
            tuple(Row(name, Searched(s), FREE, name) for name, s in _exploration.items()),
            ("Valid", "Unique", "Novel", "Meta", "Stable", "MSUN", "SUN", "Known"),
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
            _where(MATTERGEN),
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
            table=tables.gates,
            claim="A policy exploits its gate: with LeMat's it proposes 80 % all-metal formulas.",
        ),
        Study(
            "lemat", "LeMat-GenBench", "tab:app-lemat-mp20",
            (
                Row("search", FULL, LEMAT, "ANCHOR → KLDM-CSP"),
                Row("charge-neutral formulas", Given("neutral"), LEMAT),
                Row("screened formulas (ours)", Given("screened"), LEMAT),
                Row("Crystalite-DNG", None, LEMAT, "Crystalite-DNG", GENERATOR),
                Row("KLDM-DNG", None, LEMAT, "KLDM-DNG", GENERATOR),
            ),
            ("Valid", "Unique", "Novel", "Meta", "Stable", "E_hull", "MSUN", "SUN"),
            claim="On-hull rates fall from 13.6 to 0.4 % when potential, relaxation and hull change.",
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
            (
                Row("search, positions", FULL, FIXED, "ANCHOR → KLDM-CSP, positions"),
                Row("search, cell free", FULL, FREE, "ANCHOR → KLDM-CSP, cell free"),
                Row("charge-neutral, positions", Given("neutral"), FIXED),
                Row("charge-neutral, cell free", Given("neutral"), FREE),
            ),
            table=tables.relaxation_budget,
            claim="At 100 steps 16 % of a search's relaxations converge, at 400 steps 99 %.",
        ),
        Study(
            "csp-training", "Likelihood training of priors on a search's structures", "tab:app-ft",
            tuple(
                Row(f"{prior}: {arm}", None, MATTERGEN, f"{prior}: {arm}", TUNED)
                for prior, arms in (
                    ("KLDM-CSP", ("Released checkpoint", "FT: MP-20 only (ctl)", "FT: MP-20 + ANCHOR")),
                    ("Crystalite-CSP", ("Released checkpoint", "FT: MP-20 only (ctl)", "FT: MP-20 + ANCHOR")),
                )
                for arm in arms
            ),
            ("MSUN", "SUN"),
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
            table=theory_table, evaluated=False,
            claim="A KL-regularised fine-tune reweights what a model proposes already, by a bounded factor.",
        ),
    )
}  # fmt: skip


def find_study(name: str) -> Study:
    """A study by its name."""
    if name not in STUDIES:
        raise InputError(f"there is no study '{name}'", nearest(name, STUDIES))
    return STUDIES[name]

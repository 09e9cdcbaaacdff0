"""The tables of a ledger: a campaign, its steps, candidates, states, finds, and verdicts on them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS, column

metadata = sa.MetaData()

campaign = sa.Table(
    "campaign",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, comment="always 1"),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("config", sa.JSON, nullable=False, comment="effective configuration"),
    sa.Column(
        "identity", sa.JSON, nullable=False, comment="hashes of reference, prior, potential, hull; versions"
    ),
    sa.Column("created", sa.String, nullable=False, comment="UTC, ISO 8601"),
)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("step", sa.Integer, primary_key=True, comment="from 0"),
    sa.Column(
        "structures", sa.Integer, nullable=False, comment="compositions proposed so far, this step included"
    ),
    sa.Column("contexts", sa.JSON, nullable=False, comment="w and element sub-group of each group"),
    sa.Column("metrics", sa.JSON, nullable=False, comment="learning metrics of the update"),
    sa.Column("seconds", sa.JSON, nullable=False, comment="time by part, s; potential is inside relaxation"),
)

SQL = {"bool": sa.Boolean, "int": sa.Integer, "float": sa.Float, "text": sa.String}


def _column(name: str, *, nullable: bool = True, index: bool | None = None) -> sa.Column[Any]:
    """A column of the table of outcomes, as it is declared there."""
    declared = column(name)
    return sa.Column(name, SQL[declared.kind], nullable=nullable, index=index, comment=declared.about)


candidates = sa.Table(
    "candidates",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, comment="from 0, in sampling order"),
    sa.Column("step", sa.Integer, nullable=False, index=True),
    sa.Column("group_index", sa.Integer, nullable=False, comment="group within the step"),
    sa.Column("member", sa.Integer, nullable=False, comment="place within the group"),
    _column("formula", nullable=False, index=True),
    _column("cell", nullable=False),
    sa.Column("n_elements", sa.Integer, nullable=False, comment="k"),
    _column("n_atoms", nullable=False),
    sa.Column("log_probs", sa.JSON, comment="log-probability of each decision of whoever proposed it"),
    _column("charge_ok"),
    _column("bonds_ok"),
    _column("bond_ratio"),
    _column("bonds_by_floor"),
    _column("valid", nullable=False),
    sa.Column("included", sa.Boolean, nullable=False, comment="takes part in the update"),
    _column("status", nullable=False),
    _column("reason", nullable=False),
    _column("made_by"),
    sa.Column("generated", sa.LargeBinary, comment="crystal as it was made, see encode_crystal"),
    sa.Column("relaxed", sa.LargeBinary, comment="relaxed crystal"),
    _column("energy_ev"),
    _column("relaxation"),
    _column("relaxation_steps"),
    _column("evaluations"),
    _column("max_force_ev_per_angstrom"),
    _column("formation_energy_ev_per_atom"),
    _column(ABOVE),
    sa.Column("energy_above_each_hull_ev_per_atom", sa.JSON, comment="by the name of the hull, signed"),
    sa.Column("stability", sa.Float, comment="s_stab"),
    _column("novelty"),
    sa.Column("novelty_reference", sa.Float, comment="CAN against the reference"),
    sa.Column("novelty_history", sa.Float, comment="CAN against the history"),
    _column("novelty_branch"),
    sa.Column("d_struct", sa.Float),
    sa.Column("d_comp", sa.Float),
    sa.Column("own_objectives", sa.JSON, comment="name: value"),
    sa.Column("n_f", sa.Integer, comment="valid generations of the formula, this group included"),
    sa.Column("count_bonus", sa.Float),
    sa.Column("reward", sa.Float, comment="r(c); null when excluded"),
    sa.Column("advantage", sa.Float, comment="A_i; null when excluded"),
    _column("known_in", nullable=False),
    _column("phases_known"),
    _column("thin"),
    _column("holes"),
)

states = sa.Table(
    "states",
    metadata,
    sa.Column("name", sa.String, primary_key=True, comment="'latest', the step it was kept at, or 'prior'"),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False, comment="safetensors: policy and optimiser"),
)

finds = sa.Table(
    "finds",
    metadata,
    sa.Column("candidate", sa.Integer, primary_key=True, comment="id of the candidate"),
    sa.Column("crystal", sa.LargeBinary, nullable=False, comment="positions and cell relaxed"),
    sa.Column("spacegroup", sa.String, nullable=False, comment="symbol, spglib with symprec 0.05 Å"),
    sa.Column("spacegroup_number", sa.Integer, nullable=False),
    _column("relaxation", nullable=False),
    _column("energy_ev"),
    _column("formation_energy_ev_per_atom"),
    _column(ABOVE),
    sa.Column("energy_above_each_hull_ev_per_atom", sa.JSON, comment="by the name of the hull, signed"),
    _column(ABOVE_WITH_FINDS),
    _column("depth_percentile"),
    _column("suspicious"),
    _column("space_group_known"),
    _column("bonds_ok", nullable=False),
    _column("valid"),
    sa.Column("novelty_reference", sa.Float, comment="CAN of the final crystal against the reference"),
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    sa.Column("candidate", sa.Integer, primary_key=True, comment="id of the candidate"),
    sa.Column("level", sa.Integer, primary_key=True, comment="of the attack, see anchor.verify"),
    sa.Column("key", sa.String, nullable=False, comment="hash of claim, level, settings, parts and code"),
    sa.Column("origin", sa.String, nullable=False, comment="hash of the crystal that was first attacked"),
    sa.Column("passed", sa.Boolean, comment="null: the attack could not be tried"),
    sa.Column("reason", sa.String, nullable=False, comment="in plain words"),
    sa.Column("evidence", sa.JSON, nullable=False),
    sa.Column("crystal", sa.LargeBinary, comment="a lower one of the same formula, which takes its place"),
    sa.Column("replaced", sa.JSON, comment="columns of the find that this crystal changes"),
    sa.Column("cpu_seconds", sa.Float, nullable=False),
)
"""A later version added it: a ledger without it has no verdicts, and gets it with the first."""

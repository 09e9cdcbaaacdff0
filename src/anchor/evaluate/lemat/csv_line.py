"""One line of the table that LeMat-GenBench's `extract_benchmark_metrics.py` writes."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, sqrt
from typing import Any

from anchor.evaluate.protocol import Mean, Rate, finite

CSV_COLUMNS = (
    "run_name", "timestamp", "n_structures",
    "overall_valid_count", "charge_neutral_count", "distance_valid_count", "plausibility_valid_count",
    "unique_count", "novel_count",
    "mean_formation_energy", "formation_energy_std",
    "stability_mean_above_hull", "stability_std_e_above_hull", "stability_mean_ensemble_std",
    "mean_relaxation_RMSD", "relaxation_RMSE_std",
    "stable_count", "unique_in_stable_count", "sun_count",
    "metastable_count", "unique_in_metastable_count", "msun_count",
    "JSDistance", "MMD", "FrechetDistance",
    "element_diversity", "space_group_diversity", "site_diversity", "physical_size_diversity",
    "hhi_production_mean", "hhi_reserve_mean", "hhi_combined_mean",
)  # fmt: skip
"""Of its `extract_benchmark_metrics.py`, in order."""

SPREADS = {
    "formation_energy_std": "mean_formation_energy",
    "stability_std_e_above_hull": "stability_mean_above_hull",
    "relaxation_RMSE_std": "mean_relaxation_RMSD",
}
"""CSV columns that are the (population) standard deviation of a mean."""


def csv_row(
    metrics: Mapping[str, Rate | Mean], *, run_name: str, timestamp: str, n_structures: int
) -> dict[str, Any]:
    """One line of LeMat-GenBench's table: its columns, counts as counts.

    None for the distances of distributions (JSDistance, MMD, FrechetDistance), which compare with statistics
    and embeddings of LeMat-Bulk that are not here.
    """
    row: dict[str, Any] = {"run_name": run_name, "timestamp": timestamp, "n_structures": n_structures}
    for column in CSV_COLUMNS[3:]:
        found = metrics.get(SPREADS.get(column, column))
        if found is None:
            row[column] = None
        elif isinstance(found, Rate):
            row[column] = found.k if column.endswith("_count") else found.value
        elif column in SPREADS:
            row[column] = finite(found.std * sqrt((found.n - 1) / found.n) if found.n > 1 else nan)
        else:
            row[column] = finite(found.value)
    return row

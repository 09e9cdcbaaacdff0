"""`anchor doctor`: what works here, and what to install for the rest."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

import typer

from anchor.cli.common import JsonFlag, emit, print_table
from anchor.cli.program import as_called

PACKAGES = (
    "torch", "torch-sim-atomistic", "pymatgen", "ase", "numpy", "scipy", "spglib", "smact",
    "chgnet", "sevenn", "mattersim", "gpaw", "mace-torch", "orb-models", "fairchem-core", "nequip",
    "ray", "fastapi", "lmdb",
)  # fmt: skip


def doctor(json: JsonFlag = False) -> None:
    """Say what works here, and what to install for the rest.

    Packages, potentials and priors, and why some cannot run.

    Example: anchor doctor
    """
    report = examine()
    if json:
        emit(report)
        return
    machine = report["machine"]
    typer.echo(f"anchor {report['anchor']} on Python {machine['python']}, {machine['platform']}")
    typer.echo(
        f"devices: {', '.join(machine['devices'])}; {machine['cores']} cores, {machine['threads']} threads"
    )
    typer.echo(f"cache:   {machine['cache']}\n")
    print_table(["package", "version"], report["packages"].items())
    print_table(
        ["potential", "ready", "weights (sha256), or why not and the way out"],
        (
            [p["name"], "yes" if p["ready"] else "no", p["reason"] or p["sha256"]]
            for p in report["potentials"]
        ),
    )
    print_table(
        ["prior", "ready", "why not, and the way out"],
        ([p["name"], "yes" if p["ready"] else "no", p["reason"]] for p in report["priors"]),
    )
    print_table(
        ["bundled data", "bytes", "sha256"],
        ([f["file"], f["bytes"], f["sha256"][:16] + "…"] for f in report["files"]),
    )
    typer.echo("")
    print_table(
        ["hull energies", "compounds", "stable, absent in the other", "deeper than 0.05 eV/atom", "binaries"],
        ([d["name"], d["compounds"], *d["holes"].values()] for d in report["hull"]),
    )
    if report["problems"]:
        typer.echo("problems:")
        for problem in report["problems"]:
            typer.echo(as_called(f"  - {problem}"))


def examine() -> dict[str, Any]:
    """The whole report as one JSON-ready document."""
    import torch

    import anchor
    from anchor.hull.databases import LABELS
    from anchor.hull.holes import load_facts
    from anchor.paths import BUNDLED, cache_dir, sha256
    from anchor.potentials.registry import REGISTRY, availability
    from anchor.potentials.weights import pinned
    from anchor.priors import prior_availability
    from anchor.reference.reference import load_reference

    devices = ["cpu"]
    devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    potentials = [
        _row(name, availability(name)) | {"sha256": pinned(entry.weights)} for name, entry in REGISTRY.items()
    ]
    priors = [_row(name, state) for name, state in prior_availability().items()]
    files = [
        {"file": str(path.relative_to(BUNDLED)), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(BUNDLED.rglob("*"))
        if path.is_file()
    ]
    problems = (
        [f"no potential can run: {potentials[0]['reason']}"]
        if not any(p["ready"] for p in potentials)
        else []
    )
    reference, holes = load_reference(), load_facts()["holes"]
    compounds = {"oqmd": len(reference.hull_numbers), "mp": len(reference.mp_hull["numbers"])}
    hull = [{"name": LABELS[n], "compounds": compounds[n], "holes": holes[n]} for n in compounds]
    return {
        "anchor": anchor.__version__,
        "machine": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "executable": sys.executable,
            "devices": devices,
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "cache": cache_dir(),
        },
        "packages": {name: _version(name) for name in PACKAGES},
        "potentials": potentials,
        "priors": priors,
        "files": files,
        "hull": hull,
        "problems": problems,
    }


def _row(name: str, state: Any) -> dict[str, Any]:
    reason = "" if state.ok else "; ".join(part for part in (state.reason, state.how_to_get) if part)
    return {"name": name, "ready": state.ok, "reason": reason}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"

"""What people copy to clusters: commands that exist, tokens, manifests that Kubernetes accepts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from anchor.cli.main import app
from anchor.config import load_config

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text()))
CLAIM, JOB = MANIFESTS
KUBERNETES = "1.37"

# Fields of KubeRay's ray.io/v1 that the manifest may use, from its API reference.
FIELDS = {
    "spec": {
        "entrypoint", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec",
    },
    "cluster": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "head": {"rayStartParams", "template"},
    "worker": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}  # fmt: skip


def groups() -> list[dict[str, Any]]:
    cluster = JOB["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def check_command(words: list[str]) -> None:
    """Refuses a command or an option that anchor does not have, and a setting that there is not."""
    command: Any = typer.main.get_command(app)
    assert words[0] == "anchor"
    context = command.commands[words[1]].make_context(words[1], list(words[2:]))
    load_config(preset=context.params.get("preset", "default"), overrides=context.params.get("set_") or ())


def commands(text: str) -> list[list[str]]:
    plain = text.replace('"$run"', "run").replace('"${@:2}"', "")
    code = "\n".join(line for line in plain.splitlines() if not line.startswith("#"))
    found = re.findall(r"anchor (?:search|resume) [^;)]*", code)
    return [shlex.split(one) for one in found]


@pytest.mark.parametrize("name", ["kuberay.yaml", "slurm.sh"])
def test_commands_are_ours(name: str) -> None:
    text = JOB["spec"]["entrypoint"] if name == "kuberay.yaml" else (DEPLOY / name).read_text()
    found = commands(text)
    assert {words[1] for words in found} == {"search", "resume"}
    for words in found:
        assert words[words.index("--address") + 1] == "auto"
        check_command(words)
    with pytest.raises(Exception, match="No such option"):
        check_command(["anchor", "resume", "run", "--adress", "auto"])


def test_the_script_is_a_script() -> None:
    subprocess.run(["bash", "-n", str(DEPLOY / "slurm.sh")], check=True)
    text = (DEPLOY / "slurm.sh").read_text()
    assert "RAY_AUTH_MODE=token" in text
    assert "--exclusive" in text
    assert "--signal=B:TERM" in text  # to all processes it would end Ray before the campaign's step


def test_the_signal_is_for_the_campaign_alone(tmp_path: Path) -> None:
    """The script with a Slurm and a Ray that only start things: its signal reaches what it started, once."""
    fake = {
        "scontrol": "echo first; echo second",
        "srun": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        "anchor": f'trap "echo stopped >> {tmp_path}/said; exit 0" TERM; touch {tmp_path}/began; '
        "while :; do sleep 0.05; done",
    }
    for name, body in fake.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    surroundings = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
    }
    nodes = {"SLURM_JOB_NODELIST": "x", "SLURM_JOB_NUM_NODES": "2", "TMPDIR": str(tmp_path)}
    script = subprocess.Popen(["bash", DEPLOY / "slurm.sh", tmp_path / "run"], env=surroundings | nodes)
    try:
        while not (tmp_path / "began").exists():
            assert script.poll() is None
            time.sleep(0.02)
        script.terminate()
        assert script.wait(60) == 0
    finally:
        script.kill()
    assert (tmp_path / "said").read_text() == "stopped\n"
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_the_job_has_known_fields_and_a_token() -> None:
    assert (JOB["apiVersion"], JOB["kind"]) == ("ray.io/v1", "RayJob")
    cluster = JOB["spec"]["rayClusterSpec"]
    head, *workers = groups()
    assert set(JOB["spec"]) <= FIELDS["spec"]
    assert set(cluster) <= FIELDS["cluster"]
    assert set(head) <= FIELDS["head"]
    assert all(set(worker) <= FIELDS["worker"] for worker in workers)
    assert cluster["authOptions"] == {"mode": "token"}
    assert all(isinstance(value, str) for group in groups() for value in group["rayStartParams"].values())
    assert len({group["template"]["spec"]["containers"][0]["image"] for group in groups()}) == 1
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in head["template"]["spec"]["volumes"]}
    assert claims == {CLAIM["metadata"]["name"]}


def test_pods_and_claims_keep_to_kubernetes_schemas() -> None:
    """KubeRay's own schema is not on the package index: its pod templates are checked as pods."""
    import kubernetes_validate

    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **g["template"]} for g in groups()]
    for document in (CLAIM, *pods):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**pods[0], "spec": {"container": []}}, KUBERNETES, strict=True)

"""What docs/security.md says: nothing is unpickled unseen, and no text of others becomes HTML."""

import ast
from pathlib import Path

import pytest
from campaign_ledgers import candidate, rock_salt, write_ledger

import anchor
from anchor.potentials import registry
from anchor.potentials.weights import Downloaded
from anchor.report import html

SRC = Path(anchor.__file__).parent
UNPICKLING = {
    "executors/processes.py": "from our own child, through a pipe without a name",
    "executors/ray_tasks.py": "from the processes of a Ray cluster that showed the token",
    "executors/worker.py": "from our own parent, through a pipe without a name, or as in ray_tasks",
    "potentials/mace.py": "only after `verified`: the hash is pinned",
    "formats/plain_pickle.py": "an unpickler that knows plain values only",
}
"""Files that may read pickles, and why."""
EVIL = "<script>alert(1)</script>'\"&"


def calls(tree: ast.AST) -> list[tuple[str, dict[str, object]]]:
    """Dotted names that are called, with their constant keywords."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words = {
                k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)
            }
            found.append((ast.unparse(node.func), words))
    return found


def unpickles(name: str, words: dict[str, object]) -> bool:
    if name == "torch.load":
        return words.get("weights_only") is not True
    if name in ("np.load", "numpy.load"):
        return words.get("allow_pickle") is not False
    return name in ("pickle.load", "pickle.loads", "joblib.load", "cloudpickle.loads", "_PlainUnpickler")


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_nothing_is_unpickled_unseen(path: Path) -> None:
    found = [name for name, words in calls(ast.parse(path.read_text())) if unpickles(name, words)]
    assert bool(found) == (str(path.relative_to(SRC)) in UNPICKLING), found


@pytest.mark.parametrize(
    "code", ["torch.load(p)", "np.load(p)", "pickle.loads(b)", "torch.load(p, weights_only=x)"]
)
def test_the_test_above_can_fail(code: str) -> None:
    assert any(unpickles(*call) for call in calls(ast.parse(code)))


def test_no_potential_is_loaded_without_a_hash() -> None:
    for entry in registry.REGISTRY.values():
        pinned = entry.weights.sha256 is not None
        assert pinned or isinstance(entry.weights, Downloaded)  # then the first fetch records one: `verified`


def test_reports_escape_what_a_ledger_holds(tmp_path: Path) -> None:
    """What is HTML is escaped, the rest is packed; tests/report/test_browser.py has the browser's side."""
    salt = rock_salt("Na", "Cl", 5.6)
    ledger = write_ledger(tmp_path, [candidate(0, salt, 0.05, formula=EVIL, status=EVIL)], [])
    page = html.report_html(ledger)
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 2

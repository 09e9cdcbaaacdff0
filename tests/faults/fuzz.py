"""Random and mutated input for everything that reads: python tests/faults/fuzz.py [-n 10000] [--only NAME]

Good examples are cut, overwritten, repeated and given absurd numbers (hypothesis), and handed to the function
that reads them. It may take them or refuse them with a cause (`AnchorError`); any other exception is a
traceback to a person. An input that takes longer than `SECONDS` is a hang, and memory is limited. The
shortest input that goes wrong is printed; the exit code is 0 if there is none.
"""

from __future__ import annotations

import argparse
import io
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from examples import (
    CIF,
    CSV,
    EXTXYZ,
    FILTERS,
    FORMULAS,
    POSCAR,
    YAML,
    archive,
    arrays,
    dft_outputs,
    ledger,
    policy_card,
    structure_json,
    tensors,
)

from anchor.errors import AnchorError, InputError

SECONDS = 10
"""Processor time of one input, after which it counts as a hang."""
MEMORY = 1 * 2**30
"""Bytes by which the process may grow over all inputs of a kind."""

LONGEST = 3000
"""Characters of a fault that are shown: a ledger is long."""

NUMBERS = [b"0", b"-1", b"1e308", b"-1e-320", b"nan", b"inf", b"99999999999999999999", b"1e8", b"0.0", b"1/3"]
WORDS = [
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b"'",
    b'"',
    b"\\",
    b"/../",
    b"<b>",
    b"{",
    b"[" * 300,
    b"\xe2\x82\x82",
    b",,",
    b";",
]


@st.composite
def mutated(draw: st.DrawFn, example: Callable[[], bytes]) -> bytes:
    """A good example after up to six changes, or bytes out of nowhere."""
    data = example()
    if draw(st.integers(0, 20)) == 0:
        return draw(st.binary(max_size=200))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        change = draw(st.sampled_from(["cut", "drop", "put", "number", "word", "repeat", "flip"]))
        if change == "cut":
            data = data[:place]
        elif change == "drop":
            data = data[:place] + data[place + length :]
        elif change == "put":
            data = data[:place] + draw(st.binary(max_size=20)) + data[place:]
        elif change in ("number", "word"):
            put = draw(st.sampled_from(NUMBERS if change == "number" else WORDS))
            data = data[:place] + put + data[place + len(put) * draw(st.integers(0, 1)) :]
        elif change == "repeat":
            data = data[:place] + data[place : place + length] * draw(st.integers(2, 30)) + data[place:]
        elif place < len(data):
            data = data[:place] + bytes([data[place] ^ (1 << draw(st.integers(0, 7)))]) + data[place + 1 :]
    return data


def read_formula(path: Path) -> None:
    from anchor.chemistry.composition import parse_formula
    from anchor.chemistry.formula import parse_amounts

    text = path.read_bytes().decode("utf-8", "replace")
    for parse in (parse_formula, parse_amounts):
        with suppress(AnchorError):
            parse(text)


def read_crystals(path: Path) -> None:
    from anchor.formats import load

    load(path, on_error="skip")  # all entries, and once more, so that a bad one counts as refused
    load(path, on_error="raise")


def read_dft(path: Path) -> None:
    from anchor.dft.results import read_result

    read_result(path)


def read_config(path: Path) -> None:
    from anchor.config import load_config

    load_config(path)


def read_arrays(path: Path) -> None:
    from anchor.arrays import load_arrays

    load_arrays(path)


def read_tensors(path: Path) -> None:
    from anchor.weights import read

    read(path)


def read_policy(path: Path) -> None:
    from anchor.policy.weights import load_policy

    load_policy(path.read_bytes())


@st.composite
def policies(draw: st.DrawFn) -> bytes:
    """Good weights with a card that somebody spoilt."""
    from safetensors.torch import save

    card, weights = policy_card()
    return save(weights, metadata={"anchor": draw(mutated(lambda: card)).decode("utf-8", "replace")})


def read_ledger(path: Path) -> None:
    from anchor.search.ledger import Ledger

    opened = Ledger.open(path)
    try:
        for look in (
            lambda: opened.config,
            lambda: opened.identity,
            lambda: list(opened.rows()),
            opened.step_rows,
            opened.find_rows,
            opened.verdict_rows,
            opened.state,
        ):
            with suppress(AnchorError):
                look()
    finally:
        opened.close()


@cache
def one_candidate() -> tuple[dict[str, Any], sa.Connection]:
    """A row, and a ledger's table that holds it."""
    from anchor.search.tables import candidates

    values = {"bool": True, "int": 3, "float": 0.5, "str": "NaCl", "bytes": b"", "dict": {}}
    row = {c.name: values[c.type.python_type.__name__] for c in candidates.c if not c.nullable} | {"id": 1}
    connection = sa.create_engine("sqlite://").connect()
    candidates.metadata.create_all(connection)
    connection.execute(sa.insert(candidates), row)
    whole = connection.execute(sa.select(candidates)).one()
    return dict(whole._mapping), connection


def read_filter(path: Path) -> None:
    """Understood, it says the same of a row in Python and in a database."""
    from anchor.search.tables import candidates
    from anchor.selecting import parse, to_sql

    wanted = parse(path.read_bytes().decode("utf-8", "replace"))
    row, connection = one_candidate()
    query = sa.select(sa.func.count()).select_from(candidates).where(to_sql(wanted, candidates.c))
    assert bool(connection.execute(query).scalar_one()) == wanted.holds(row)


@st.composite
def filters(draw: st.DrawFn) -> bytes:
    """A good filter that was spoilt, or conditions on any field joined in any way: many mean something."""
    from anchor.selecting import FIELDS

    if draw(st.booleans()):
        example = draw(st.sampled_from(FILTERS))
        return draw(mutated(lambda: example))
    one = st.sampled_from(["0.1", "3", "1e308", "-1", "9" * 20, "'x%'", "NaCl", "Na", "'", "true"])
    some = st.lists(one, max_size=3).map(lambda values: f"({', '.join(values)})")
    sign = st.sampled_from(["<", ">=", "=", "!=", "in", "contains", "has", "has any", "within", ""])
    about = st.tuples(st.sampled_from(sorted(FIELDS)), sign, one | some).map(" ".join)
    about |= st.sampled_from(sorted(FIELDS)).map(lambda field: f"{field} is missing")
    word = st.sampled_from(["and", "or", "and not", "or not", "and ("])
    text = draw(about)
    for joined, more in draw(st.lists(st.tuples(word, about), max_size=5)):
        text += f" {joined} {more}" + (")" if "(" in joined else "")
    return text.encode()


@cache
def anchor_command() -> Any:
    """The command `anchor`, as typer makes it."""
    import typer

    from anchor.cli.main import app

    return typer.main.get_command(app)


def read_line(path: Path) -> None:
    """Parse a command line as `anchor` does, and do not run it."""
    import typer

    refused = typer.BadParameter.__mro__[2]  # ClickException, of the click that typer brings along
    words = path.read_bytes().decode("utf-8", "replace").split("\x1f")
    command, context = anchor_command(), None
    try:
        while words and words[0] in getattr(command, "commands", ()):
            context = command.context_class(command, info_name=words[0], parent=context)
            command, words = command.commands[words[0]], words[1:]
        command.make_context("anchor", words, parent=context)
    except refused as error:
        raise InputError(str(error) or "no arguments") from None
    except (typer.Exit, typer.Abort):
        pass


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A command of anchor with options of its own and of others, and odd values."""
    command = anchor_command()
    words: list[str] = []
    while hasattr(command, "commands"):
        words.append(draw(st.sampled_from(sorted(command.commands))))
        command = command.commands[words[-1]]
    options = sorted({name for parameter in command.params for name in parameter.opts})
    odd = [
        "",
        "-1",
        "nan",
        "1e999",
        "0",
        "no/such.cif",
        "..",
        "\n",
        "a" * 5000,
        "--",
        "-n",
        "NaCl",
        "💎",
        "[1,",
    ]
    word = st.one_of(st.sampled_from([*options, *odd]), st.text(max_size=12))
    words += draw(st.lists(word, max_size=8))
    return "\x1f".join(words).encode("utf-8", "replace")


TARGETS: dict[str, tuple[Callable[[], st.SearchStrategy[bytes]], str, Callable[[Path], None]]] = {
    "formula": (
        lambda: st.sampled_from(FORMULAS).flatmap(lambda f: mutated(lambda: f)),
        "f.txt",
        read_formula,
    ),
    "CIF": (lambda: mutated(lambda: CIF), "a.cif", read_crystals),
    "POSCAR": (lambda: mutated(lambda: POSCAR), "POSCAR", read_crystals),
    "extxyz": (lambda: mutated(lambda: EXTXYZ), "a.extxyz", read_crystals),
    "CSV": (lambda: mutated(lambda: CSV), "a.csv", read_crystals),
    "JSON": (lambda: mutated(structure_json), "a.json", read_crystals),
    "DFT": (
        lambda: st.sampled_from(dft_outputs()).flatmap(lambda text: mutated(lambda: text)),
        "a.out",
        read_dft,
    ),
    "zip": (lambda: mutated(archive), "a.zip", read_crystals),
    "YAML": (lambda: mutated(lambda: YAML), "a.yaml", read_config),
    "npz": (lambda: mutated(arrays), "a.npz", read_arrays),
    "safetensors": (lambda: mutated(tensors), "a.safetensors", read_tensors),
    "policy": (policies, "a.safetensors", read_policy),
    "SQLite": (lambda: mutated(ledger), "ledger.db", read_ledger),
    "filter": (filters, "filter.txt", read_filter),
    "command line": (lines, "words.txt", read_line),
}


class HangError(Exception):
    """An input took too long."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `HangError` after so much processor time."""

    def late(*_: object) -> None:
        raise HangError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fuzz(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Try n inputs of a kind: how many were taken and refused.

    Raises:
        Exception: What a reader said to the shortest bad input that was found.
    """
    strategy, file, read = TARGETS[name]
    counts = {"taken": 0, "refused": 0}
    path = folder / file

    @settings(
        max_examples=n,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy())
    def one(data: bytes) -> None:
        path.write_bytes(data)
        with (
            warnings.catch_warnings(),
            limited(SECONDS),
            redirect_stderr(io.StringIO()),
            redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            try:
                read(path)
            except AnchorError as refused:
                if not str(refused):
                    raise AssertionError("a refusal without a word") from refused
                counts["refused"] += 1
            else:
                counts["taken"] += 1

    one()
    strangers = [p for p in folder.parent.rglob("*") if p.is_file() and p.parent != folder]
    assert not strangers, f"written outside: {strangers}"
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-n", type=int, default=10_000)
    parser.add_argument("--only", choices=TARGETS, nargs="+")
    options = parser.parse_args()
    bad = 0
    for name in options.only or TARGETS:
        began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
            folder = Path(scratch) / "inside" / "here"
            folder.mkdir(parents=True)
            try:
                said = str(fuzz(name, options.n, folder))
            except Exception as error:  # whatever a reader raises is what is looked for
                bad += 1
                said = f"FAULT {type(error).__name__}: {error}\n" + "\n".join(getattr(error, "__notes__", []))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        if grown > MEMORY / 2**20:
            bad += 1
            said += f" FAULT grew by {grown:.0f} MB"
        print(
            f"{name:13s} {said[:LONGEST]}, {time.process_time() - began:.0f} s, +{grown:.0f} MB", flush=True
        )
    print(f"{options.n} inputs each, {bad} kinds with a fault")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

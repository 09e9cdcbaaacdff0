"""The selection language: what it means, in Python and in SQL alike, and how it refuses."""

from contextlib import suppress

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.errors import InputError
from anchor.outcomes.columns import ABOVE
from anchor.search.tables import candidates
from anchor.selecting import FIELDS, SelectionError, everything, made_of, parse, to_sql
from anchor.selecting.language import DEEPEST, LONGEST

EACH = "energy_above_each_hull_ev_per_atom"


def row(number: int, formula: str, above: float | None, **more: object) -> dict:
    plain = {
        "id": number, "step": 0, "group_index": 0, "member": number, "formula": formula, "cell": formula,
        "n_elements": 2, "n_atoms": 4, "valid": True, "included": True, "status": "scored", "reason": "",
        "known_in": "", "thin": None, ABOVE: above, EACH: {"oqmd": above},
    }  # fmt: skip
    return {**plain, **more}


ROWS = [
    row(0, "NaCl", -0.1, known_in="icsd,mp"),
    row(1, "Na3N", 0.02, thin="no ternary is known"),
    row(2, "KCl", None),
    row(3, "NaMn(PO3)3", 0.3, n_elements=4, n_atoms=28, valid=False, status="invalid"),
    row(4, "Mn3(PO4)2", 0.05, n_elements=3, thin=""),
]


def selected(text: str) -> list[int]:
    wanted = parse(text)
    return [row["id"] for row in ROWS if wanted.holds(row)]


@pytest.fixture(scope="module")
def database() -> sa.Connection:
    engine = sa.create_engine("sqlite://")
    candidates.create(engine)
    connection = engine.connect()
    connection.execute(candidates.insert(), ROWS)
    return connection


def in_sql(connection: sa.Connection, text: str) -> list[int]:
    query = sa.select(candidates.c.id).where(to_sql(parse(text), candidates.c)).order_by(candidates.c.id)
    return list(connection.execute(query).scalars())


MEANINGS = {
    "e_hull < 0.03": [0, 1],
    "E_HULL <= 0.02 AND nelements = 2": [0, 1],
    "not e_hull < 0.03": [3, 4],  # what has no energy is on neither side
    "e_hull is missing": [2],
    "e_hull is not missing and e_hull > 0.1": [3],
    "-0.2 < e_hull < 0": [0],
    "0 <= e_hull": [1, 3, 4],
    "e_hull_oqmd < 0 or e_hull_mp < 0": [0],
    "elements has N": [1],
    "elements has (Na, P)": [3],
    "elements has any (K, P)": [2, 3, 4],
    "elements within (Na, Cl, N)": [0, 1],
    "elements within (Mn, P, O)": [4],
    "not elements has Na": [2, 4],
    "formula = ClNa": [0],
    "formula in (NaCl, 'KCl')": [0, 2],
    'formula contains "PO"': [3, 4],
    "known": [0],
    "known = false and valid": [1, 2, 4],
    "thin": [1],
    "thin = false": [4],
    "status != scored": [3],
    "natoms >= 4 and (nelements = 3 or nelements = 4)": [3, 4],
    "id in (1, 3)": [1, 3],
}


@pytest.mark.parametrize("text", MEANINGS)
def test_it_means_what_it_says(text: str, database: sa.Connection) -> None:
    assert selected(text) == MEANINGS[text]
    assert in_sql(database, text) == MEANINGS[text]


def trees() -> st.SearchStrategy[str]:
    numbers = st.sampled_from(["-0.1", "0.02", "3", "1e-3"])
    leaves = st.one_of(
        st.builds("e_hull {} {}".format, st.sampled_from(["<", ">=", "=", "!="]), numbers),
        st.builds("{} < e_hull_oqmd".format, numbers),
        st.builds("elements has {}".format, st.sampled_from(["Na", "N", "(Mn, O)", "any (K, N)"])),
        st.builds("elements within {}".format, st.sampled_from(["(Na, Cl)", "(Mn, P, O)"])),
        st.sampled_from(["valid", "known", "thin", "thin is missing", "formula = NaCl", "natoms in (4, 28)"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("({}) and ({})".format, inner, inner),
            st.builds("({}) or {}".format, inner, inner),
            st.builds("not ({})".format, inner),
        ),
        max_leaves=8,
    )


@given(trees())
@settings(max_examples=60, deadline=None)
def test_python_and_sql_agree(database: sa.Connection, text: str) -> None:
    assert selected(text) == in_sql(database, text)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("e_hul < 0.1", 0, "did you mean 'e_hull'?"),
        ("nelements = 3 and spacgroup = Pnma", 18, "did you mean 'spacegroup'?"),
        ("e_hull < low", 9, "compared with a number"),
        ("e_hull", 6, "e_hull < 0.1"),
        ("elements has (Na, o)", 13, "did you mean Na,O?"),
        ("elements = Na", 9, "elements has Na"),
        ("formula < NaCl", 8, "= or !="),
        ("(valid", 6, "add a )"),
        ("valid; drop table candidates", 5, "';' means nothing"),
        ("valid known", 6, "join conditions"),
        ('formula = "NaCl', 10, "not closed"),
        ("formula = Xx2", 10, "Xx"),
        ("", 0, "for example"),
    ],
)
def test_an_error_points_at_its_place(text: str, at: int, says: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse(text)
    assert caught.value.at == at
    assert says in str(caught.value)
    pointed = str(caught.value).splitlines()[2]
    assert pointed.index("^") == at + 2, "the mark stands under the word"


def test_what_is_typed_never_becomes_sql() -> None:
    text = 'formula contains "\'; drop table candidates; --"'
    query = str(to_sql(parse(text), candidates.c))
    assert "drop" not in query


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(InputError, match="brackets"):
        parse("(" * (DEEPEST + 1) + "valid" + ")" * (DEEPEST + 1))
    with pytest.raises(InputError, match="characters"):
        parse("valid or " * LONGEST)


def test_a_field_that_a_table_lacks() -> None:
    with pytest.raises(InputError, match="level"):
        to_sql(parse("level >= 3"), candidates.c)


def test_selections_join() -> None:
    wanted = parse("e_hull < 1") & made_of(["Na", "Cl"])
    assert [row["id"] for row in ROWS if wanted.holds(row)] == [0]
    assert parse(wanted.text).root == wanted.root
    assert all(everything().holds(row) for row in ROWS)
    assert [field.name for field in wanted.fields()] == ["e_hull", "elements"]


def test_every_field_says_what_it_is() -> None:
    assert all(field.about for field in FIELDS.values())
    assert all(field.unit for field in FIELDS.values() if field.name.startswith("e_"))

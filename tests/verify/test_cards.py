"""Evidence cards say what was claimed, against what, and what every attack said."""

from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.verify.cards import WIDTH, card
from anchor.verify.claims import Claim, Verdict
from anchor.verify.run import Record


def record() -> Record:
    crystal = Crystals.from_atoms([bulk("NaCl", "rocksalt", a=5.6)])
    claim = Claim("7", crystal, -3.4, {"oqmd": -0.2, "mp": -0.12, "union": -0.12})
    found = Record(claim, claim)
    evidence = {
        "decomposition": {"oqmd": "0.5 Na + 0.5 Cl", "mp": "1 Na2Cl2"},
        "space_group": "Fm-3m",
        "depth_percentile": 94.5,
        "with_own_elements_ev_per_atom": {"oqmd": -0.2, "mp": -0.05},
    }
    found.add(Verdict("7", 1, True, "below the hull, and the formula is in no list", evidence, None, 0.02))
    found.add(Verdict("7", 2, True, "the lowest of 37 distinct structures " + "and so on " * 12))
    return found


def test_both_hulls_and_every_attack_stand_on_the_card() -> None:
    one = record()
    one.add(Verdict("7", 3, False, "1 of 3 agree", {}, None, 0.6))
    text = card(one)
    assert text.splitlines()[0] == "NaCl  Fm-3m  2 atoms  level 2"
    assert "OQMD: -0.200 against 0.5 Na + 0.5 Cl" in text
    assert "Materials Project: -0.120 against 1 Na2Cl2" in text
    assert "-0.050 with the elements where the potential has them" in text
    assert "3 FAILED: 1 of 3 agree [0.6 s]" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_an_attack_that_could_not_be_tried_is_not_passed() -> None:
    one = record()
    one.add(Verdict("7", 3, None, "fewer than 2 other potentials answer"))
    assert "3 not possible: fewer than 2" in card(one)
    assert "level 2" in card(one).splitlines()[0]

from pymatgen.core import Element

from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.families import FAMILIES, FAMILY, MEMBERS


def test_families_partition_the_vocabulary() -> None:
    assert len(FAMILIES) == 11
    assert sorted(s for members in MEMBERS.values() for s in members) == sorted(VOCABULARY)
    assert all(symbol in MEMBERS[FAMILIES[FAMILY[i]]] for i, symbol in enumerate(VOCABULARY))


def test_families_agree_with_the_periodic_table() -> None:
    def expected(e: Element) -> str:
        if e.is_lanthanoid:
            return "lanthanide"
        if e.is_actinoid:
            return "actinide"
        if e.symbol in ("H", "C"):
            return "residual"
        if 3 <= e.group <= 12:
            return "early transition metal" if e.group <= 7 else "late transition metal"
        names = {1: "alkali", 2: "alkaline earth", 15: "pnictogen", 16: "chalcogen", 17: "halogen"}
        return names.get(e.group, "p-block metal or metalloid")

    assert {s: FAMILIES[FAMILY[i]] for i, s in enumerate(VOCABULARY)} == {
        s: expected(Element(s)) for s in VOCABULARY
    }

"""The bundled atlas: complete, consistent, and every held-out fact has its reason in train."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from importlib.resources import files

import pytest

Fact = tuple[str, str, str]

SPLITS = ("train", "valid", "test")
RELATIONS = {
    "in_region",
    "part_of",
    "in_continent",
    "capital_of",
    "city_in_continent",
    "borders",
    "official_language",
    "language_family",
    "uses_currency",
    "member_of",
}
CONTINENTS = {"Africa", "Asia", "Europe", "North America", "South America", "Oceania"}
BY_NEIGHBOURS = ("official_language", "uses_currency", "member_of")

# The only land borders between two continents; any other one is a slip in a region or in a border.
CROSSINGS = {
    ("Azerbaijan", "Russia"),
    ("Brazil", "France"),  # French Guiana
    ("Bulgaria", "Turkey"),
    ("China", "Russia"),
    ("Colombia", "Panama"),
    ("Egypt", "Israel"),
    ("Egypt", "Palestine"),
    ("France", "Suriname"),  # French Guiana
    ("Georgia", "Russia"),
    ("Greece", "Turkey"),
    ("Indonesia", "Papua New Guinea"),
    ("Kazakhstan", "Russia"),
    ("Mongolia", "Russia"),
    ("Morocco", "Spain"),  # Ceuta and Melilla
    ("North Korea", "Russia"),
}

# How many of the 197 are members at the end of 2024; a wrong count is the quickest sign of a wrong list.
MEMBERS = {
    "United Nations": 193,
    "European Union": 27,
    "Eurozone": 20,
    "Schengen Area": 29,
    "NATO": 32,
    "Council of Europe": 46,
    "African Union": 54,
    "Arab League": 22,
    "Commonwealth of Nations": 56,
    "Organisation of Islamic Cooperation": 57,
    "OECD": 38,
    "ASEAN": 10,
    "OPEC": 12,
    "BRICS": 9,
    "G7": 7,
    "G20": 19,
    "ECOWAS": 15,
    "CARICOM": 14,
    "Gulf Cooperation Council": 6,
    "Nordic Council": 5,
    "Benelux": 3,
}


@cache
def raw(split: str) -> bytes:
    """Return the bytes of a split file as it is shipped."""
    return (files("powerlink.kg") / "atlas" / f"{split}.tsv").read_bytes()


@cache
def facts(split: str) -> tuple[Fact, ...]:
    """Return the facts of a split, in file order."""
    rows = [line.split("\t") for line in raw(split).decode("utf-8").split("\n")[:-1]]
    assert all(len(row) == 3 for row in rows)
    return tuple((head, relation, tail) for head, relation, tail in rows)


@cache
def everything() -> tuple[Fact, ...]:
    """Return the facts of all splits."""
    return tuple(fact for split in SPLITS for fact in facts(split))


@cache
def tails(relation: str, split: str | None = None) -> dict[str, set[str]]:
    """Return head → tails of a relation, over one split or over all."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for head, name, tail in everything() if split is None else facts(split):
        if name == relation:
            found[head].add(tail)
    return dict(found)


def only(relation: str) -> dict[str, str]:
    """Return head → tail of a relation that gives each head exactly one tail."""
    found = tails(relation)
    assert {head for head, values in found.items() if len(values) != 1} == set()
    return {head: next(iter(values)) for head, values in found.items()}


def countries() -> set[str]:
    """Return the countries: whatever has a region."""
    return set(tails("in_region"))


def members(organisation: str) -> set[str]:
    """Return the members of an organisation."""
    return {head for head, values in tails("member_of").items() if organisation in values}


def has_reason(fact: Fact) -> bool:
    """Tell whether train holds the reason that the split rule promises for a held-out fact."""
    head, relation, tail = fact
    regions, continents = tails("in_region", "train"), tails("in_continent", "train")

    def continent_follows(country: str) -> bool:
        part_of = tails("part_of", "train")
        return any(tail in part_of[region] for region in regions.get(country, ()))

    def agreeing(name: str) -> int:
        known = tails(name, "train")
        return sum(tail in known.get(other, ()) for other in tails("borders")[head])

    if relation == "in_continent":
        return continent_follows(head)
    if relation == "city_in_continent":
        (country,) = tails("capital_of", "train")[head]
        return tail in continents.get(country, ()) or continent_follows(country)
    if relation == "in_region":
        return head in continents and 2 * agreeing(relation) > len(tails("borders")[head])
    if relation == "borders":
        return head in tails("borders", "train").get(tail, ())
    return relation in BY_NEIGHBOURS and agreeing(relation) >= 2


@pytest.mark.parametrize("split", SPLITS)
def test_files_are_utf8_with_lf_and_no_stray_space(split: str) -> None:
    text = raw(split).decode("utf-8")
    assert text.endswith("\n")
    assert not text.startswith("\ufeff")
    assert "\r" not in text
    assert "\n\n" not in text
    for fact in facts(split):
        assert all(name and name == " ".join(name.split()) for name in fact), fact


def test_readme_is_bundled_and_counts_right() -> None:
    text = (files("powerlink.kg") / "atlas" / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in text.split("\n") if "|" in line]
    written = {
        row[0]: tuple(int(cell.replace(",", "")) for cell in row[2:])
        for row in rows
        if len(row) == 6 and row[2][0].isdigit()
    }
    counts = [Counter(relation for _, relation, _ in part) for part in (everything(), *map(facts, SPLITS))]
    expected = {relation: tuple(count[relation] for count in counts) for relation in RELATIONS}
    expected["all"] = tuple(count.total() for count in counts)
    assert written == expected


def test_size() -> None:
    assert len(countries()) == 197
    assert len(everything()) >= 2500
    assert {relation for _, relation, _ in everything()} == RELATIONS


def test_no_fact_twice_and_no_self_loop() -> None:
    assert [fact for fact, count in Counter(everything()).items() if count > 1] == []
    assert [fact for fact in everything() if fact[0] == fact[2]] == []


def test_each_name_means_one_kind_of_thing() -> None:
    kinds = {
        "country": countries(),
        "region": set(tails("part_of")),
        "continent": CONTINENTS,
        "city": set(tails("capital_of")),
        "language": set(tails("language_family")),
        "family": set(only("language_family").values()),
        "currency": set().union(*tails("uses_currency").values()),
        "organisation": set().union(*tails("member_of").values()),
    }
    uses = Counter(name for names in kinds.values() for name in names)
    assert [name for name, count in uses.items() if count > 1] == []
    assert set(uses) == {name for head, _, tail in everything() for name in (head, tail)}


def test_nothing_is_an_orphan() -> None:
    assert set(only("capital_of").values()) == countries()
    assert set(tails("uses_currency")) == countries()
    assert set(tails("official_language")) == countries()
    assert set(tails("member_of")) <= countries()
    assert set(only("in_region").values()) == set(only("part_of"))
    assert set(only("part_of").values()) == CONTINENTS
    assert set().union(*tails("official_language").values()) == set(only("language_family"))


def test_one_capital_per_country() -> None:
    assert max(Counter(only("capital_of").values()).values()) == 1


def test_continents_follow_from_regions_and_countries() -> None:
    part_of, in_continent = only("part_of"), only("in_continent")
    assert in_continent == {country: part_of[region] for country, region in only("in_region").items()}
    expected = {city: in_continent[country] for city, country in only("capital_of").items()}
    assert only("city_in_continent") == expected


def test_borders_are_symmetric_and_between_countries() -> None:
    pairs = {(head, tail) for head, others in tails("borders").items() for tail in others}
    assert {(tail, head) for head, tail in pairs} == pairs
    assert {head for head, _ in pairs} <= countries()


def test_borders_cross_continents_only_where_they_really_do() -> None:
    in_continent = only("in_continent")
    crossing = {
        (head, tail)
        for head, others in tails("borders").items()
        for tail in others
        if head < tail and in_continent[head] != in_continent[tail]
    }
    assert crossing == CROSSINGS


def test_every_name_and_relation_occurs_in_train() -> None:
    seen = {name for head, _, tail in facts("train") for name in (head, tail)}
    assert {name for head, _, tail in everything() for name in (head, tail)} == seen
    assert {relation for _, relation, _ in facts("train")} == RELATIONS


@pytest.mark.parametrize("split", ["valid", "test"])
def test_held_out_share(split: str) -> None:
    assert 0.06 <= len(facts(split)) / len(everything()) <= 0.08
    assert len(facts(split)) >= 150
    counts = Counter(relation for _, relation, _ in facts(split))
    clear = counts["in_continent"] + counts["city_in_continent"] + counts["borders"]
    assert clear / len(facts(split)) >= 0.75


@pytest.mark.parametrize("split", ["valid", "test"])
def test_every_held_out_fact_has_its_reason_in_train(split: str) -> None:
    assert [fact for fact in facts(split) if not has_reason(fact)] == []


def test_region_and_continent_of_a_country_are_never_both_held_out() -> None:
    assert set(tails("in_region", "train")) | set(tails("in_continent", "train")) == countries()


@pytest.mark.parametrize(("organisation", "count"), MEMBERS.items())
def test_member_counts(organisation: str, count: int) -> None:
    assert len(members(organisation)) == count


def test_unions_agree_with_each_other() -> None:
    euro = {country for country, values in tails("uses_currency").items() if "Euro" in values}
    assert members("Eurozone") == euro & members("European Union")
    assert members("European Union") - members("Schengen Area") == {"Cyprus", "Ireland"}
    assert members("African Union") == {c for c, where in only("in_continent").items() if where == "Africa"}
    assert countries() - members("United Nations") == {"Kosovo", "Palestine", "Taiwan", "Vatican City"}
    assert members("Mercosur") >= {"Argentina", "Brazil", "Paraguay", "Uruguay"}  # the founders


@pytest.mark.parametrize(
    ("country", "others"),
    [
        ("Portugal", {"Spain"}),
        ("Netherlands", {"Belgium", "Germany"}),
        ("Lesotho", {"South Africa"}),
        ("Mongolia", {"China", "Russia"}),
        ("United States", {"Canada", "Mexico"}),
        ("Nepal", {"China", "India"}),
        ("Chile", {"Argentina", "Bolivia", "Peru"}),
        ("Moldova", {"Romania", "Ukraine"}),
        ("Gambia", {"Senegal"}),
        ("Papua New Guinea", {"Indonesia"}),
    ],
)
def test_known_neighbours(country: str, others: set[str]) -> None:
    assert tails("borders")[country] == others


@pytest.mark.parametrize(
    ("country", "count"),
    [
        ("China", 14),
        ("Russia", 14),
        ("Brazil", 10),
        ("Germany", 9),
        ("Democratic Republic of the Congo", 9),
        ("Zambia", 8),
        ("Austria", 8),
        ("Serbia", 8),
        ("Turkey", 8),
        ("Sudan", 7),
    ],
)
def test_known_neighbour_counts(country: str, count: int) -> None:
    assert len(tails("borders")[country]) == count


@pytest.mark.parametrize("island", ["Japan", "Iceland", "Madagascar", "Australia", "New Zealand", "Cuba", "Singapore"])
def test_islands_have_no_land_border(island: str) -> None:
    assert island in countries()
    assert island not in tails("borders")


@pytest.mark.parametrize(
    "fact",
    [
        ("France", "borders", "Germany"),
        ("France", "in_region", "Western Europe"),
        ("France", "in_continent", "Europe"),
        ("Paris", "capital_of", "France"),
        ("Canberra", "capital_of", "Australia"),
        ("Brasília", "capital_of", "Brazil"),
        ("Nairobi", "city_in_continent", "Africa"),
        ("Western Europe", "part_of", "Europe"),
        ("Switzerland", "official_language", "Romansh"),
        ("Brazil", "official_language", "Portuguese"),
        ("French", "language_family", "Romance languages"),
        ("Hungarian", "language_family", "Uralic languages"),
        ("Senegal", "uses_currency", "West African CFA franc"),
        ("Kuwait", "uses_currency", "Kuwaiti dinar"),
        ("Sweden", "member_of", "NATO"),
        ("Bolivia", "member_of", "Mercosur"),
    ],
)
def test_known_truths(fact: Fact) -> None:
    assert fact in everything()


@pytest.mark.parametrize(
    "fact",
    [
        ("Norway", "member_of", "European Union"),
        ("United Kingdom", "member_of", "European Union"),
        ("Switzerland", "uses_currency", "Euro"),
        ("Austria", "member_of", "NATO"),
        ("Angola", "member_of", "OPEC"),
        ("Sydney", "capital_of", "Australia"),
        ("Namibia", "borders", "Zimbabwe"),
        ("Albania", "borders", "Serbia"),
    ],
)
def test_known_untruths(fact: Fact) -> None:
    assert fact not in everything()

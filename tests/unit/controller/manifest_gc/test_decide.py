"""Which lists of files are collected."""

from hypothesis import given
from hypothesis import strategies as st

from controller.manifest_gc.decide import StoredManifest, charges, overdue, unreferenced, unreferenced_since


def kept(digest: str, **fields: str) -> StoredManifest:
    return StoredManifest(digest, f"uid-{digest}", "1", **fields)  # type: ignore[arg-type]  # texts alone are given here


def test_a_referenced_part_keeps_its_whole_list_and_other_lists_are_unreferenced() -> None:
    found = [kept("whole"), kept("part", listing="whole"), kept("old", listing="gone"), kept("gone")]
    assert unreferenced(found, {"part"}).keys() == {"old", "gone"}
    assert unreferenced(found, {"old"}).keys() == {"whole", "part"}
    assert unreferenced(found, set()).keys() == {"whole", "part", "old", "gone"}


def test_the_grace_period_restarts_after_a_new_reference() -> None:
    since = unreferenced_since({"a", "b"}, {}, 100)
    since = unreferenced_since({"a"}, since, 130)
    since = unreferenced_since({"a", "b"}, since, 140)
    assert overdue(since, 160, 60) == {"a"}
    assert overdue(since, 199, 60) == {"a"}
    assert overdue(since, 200, 60) == {"a", "b"}


def test_bytes_are_charged_to_the_namespace_that_stored_them_while_it_uses_them() -> None:
    found = [kept("a", namespace="x"), kept("b", namespace="x"), kept("c", namespace="x"), kept("d")]
    owners = {digest: who for digest, (who, _) in charges(found, {"a": {"x", "y"}, "b": {"z", "y"}}).items()}
    assert owners == {"a": "x", "b": "y", "c": "x", "d": ""}


def test_a_full_list_is_charged_to_those_who_still_use_a_part_of_it() -> None:
    """Otherwise a namespace that deleted its model would pay for others, and could not free its share."""
    found = [kept("full", namespace="x"), kept("part", namespace="y", listing="full")]
    assert charges(found, {"part": {"y"}})["full"][0] == "y"
    assert charges(found, {"part": {"y"}, "full": {"x"}})["full"][0] == "x"
    assert (
        charges([*found, kept("other", namespace="x", listing="full")], {"part": {"y"}, "other": {"x"}})["full"][0]
        == "x"
    )


digests = st.sets(st.integers(0, 30).map(str))


@given(digests, digests, st.dictionaries(st.integers(0, 30).map(str), st.integers(0, 30).map(str)))
def test_neither_referenced_lists_nor_the_wholes_of_their_parts_are_collected(
    names: set[str], referenced: set[str], parts: dict[str, str]
) -> None:
    found = [kept(name, listing=parts.get(name, "")) for name in sorted(names)]
    loose = unreferenced(found, referenced)
    assert loose.keys() <= names
    assert not loose.keys() & referenced
    assert not loose.keys() & {parts.get(name) for name in names & referenced}
    assert all(n in loose or n in referenced or n in {parts.get(r) for r in referenced & names} for n in names)

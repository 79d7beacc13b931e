"""The search for descendants and owners of objects."""

from hypothesis import given
from hypothesis import strategies as st

from controller.cli.why.owner_references import controller_of, descendants, unknown_owners
from shared.kube.objects import Meta


def owned(uid: str, *owners: str, controller: str = "") -> Meta:
    references = [{"apiVersion": "x/v1", "kind": "K", "uid": o, "name": o, "controller": o == controller}
                  for o in owners]  # fmt: skip
    return Meta(name=uid, uid=uid, owner_references=references)


def test_descendants_are_found_through_any_number_of_owners() -> None:
    known = {m.uid: m for m in (owned("root"), owned("a", "root"), owned("b", "a"), owned("c", "other"))}
    assert descendants("root", known) == {"a", "b"}


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3)))
def test_a_cycle_of_owners_does_not_loop_forever(links: dict[str, list[str]]) -> None:
    known = {uid: owned(uid, *owners) for uid, owners in links.items()}
    assert descendants("a", known) <= known.keys()


def test_the_kinds_of_unread_owners_are_found() -> None:
    known = {m.uid: m for m in (owned("root"), owned("a", "root"))}
    assert unknown_owners(known) == set()
    assert unknown_owners({"a": known["a"]}) == {("x/v1", "K")}


def test_the_controlling_owner_takes_precedence_over_the_first() -> None:
    def name(meta: Meta) -> str:
        return (controller_of(meta) or {}).get("name", "")

    assert name(owned("a", "x", "y", controller="y")) == "y"
    assert name(owned("a", "x", "y")) == "x"
    assert name(owned("a")) == ""

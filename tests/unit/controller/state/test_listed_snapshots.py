"""Which snapshots some node lists."""

from hypothesis import given
from hypothesis import strategies as st

from controller.state.listed_snapshots import ListedSnapshots
from shared.api.model_node import ModelNode
from tests.builders.cluster import entry, model_node

KEYS = [("m", "r1"), ("m", "r2"), ("n", "r1")]
changes = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sets(st.sampled_from(KEYS))), max_size=12)


def test_what_is_being_removed_is_not_listed() -> None:
    listed, node = ListedSnapshots(), model_node("a", entry("m"))
    listed.move(None, node)
    listed.move(node, model_node("a", entry("m", state="Absent")))
    assert KEYS[0] not in listed


@given(changes)
def test_a_snapshot_is_known_while_any_node_lists_it(steps: list[tuple[str, set[tuple[str, str]] | None]]) -> None:
    listed, known = ListedSnapshots(), dict[str, ModelNode]()
    for name, keys in steps:
        after = None if keys is None else model_node(name, *(entry(*key) for key in keys))
        listed.move(known.pop(name, None), after)
        if after is not None:
            known[name] = after
        present = {e.key for found in known.values() for e in found.spec.entries}
        assert [key in listed for key in KEYS] == [key in present for key in KEYS]

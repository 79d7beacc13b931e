from hypothesis import given
from hypothesis import strategies as st

from controller.state.index import Index

names = st.sampled_from("xyz")
values = st.frozensets(st.sampled_from("abcd"))


@given(st.lists(st.tuples(names, values)))
def test_the_index_agrees_with_a_full_search_and_keeps_no_empty_entries(
    steps: list[tuple[str, frozenset[str]]],
) -> None:
    index: Index[str, str] = Index()
    has: dict[str, frozenset[str]] = {}
    for name, after in steps:
        index.update(name, has.get(name, frozenset()), after)
        has[name] = after
    for value in "abcd":
        assert set(index.of(value)) == {name for name, after in has.items() if value in after}
    assert len(index) == len(frozenset[str]().union(*has.values()))

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.selection.choice import (
    WHOLE,
    Duplicates,
    RequestedSelection,
    Selection,
    choose,
    make_selection,
    requested_in_parameters,
    split_patterns,
)

words = st.lists(st.text("abc*/. ", max_size=4), max_size=4).map(tuple)
duplicates: st.SearchStrategy[Duplicates] = st.sampled_from(["keep", "skip"])
selections = st.builds(make_selection, words, words, duplicates, pickle=st.booleans())
wishes = st.builds(RequestedSelection, words, words, st.none() | duplicates, st.none() | st.booleans())


def test_equivalent_selections_are_normalised_to_one_form() -> None:
    assert make_selection(["b", " a", "b", ""], [], "keep") == Selection(allow=("a", "b"))
    assert make_selection(["*", "x"]) == WHOLE
    assert make_selection(["*", "x"], ["y"]) == Selection(ignore=("y",))


def test_selecting_everything_keeps_the_revision() -> None:
    assert WHOLE.key == ""
    assert WHOLE.revision_of("c0ffee") == "c0ffee"


@given(one=selections, other=selections)
def test_different_selections_have_different_revisions(one: Selection, other: Selection) -> None:
    assert (one.revision_of("r") == other.revision_of("r")) == (one == other)
    assert one.has_revision(one.revision_of("f" * 40))
    assert one == other or not one.has_revision(other.revision_of("f" * 40))


@given(requested=wishes, cluster=selections)
def test_nobody_overrides_the_administrators_refusal(requested: RequestedSelection, cluster: Selection) -> None:
    chosen = choose(requested, cluster)
    assert chosen.pickle == (cluster.pickle and requested.pickle is not False)
    assert chosen.duplicates == (requested.duplicates or cluster.duplicates)


def test_patterns_of_its_own_replace_both_lists_of_the_cluster() -> None:
    cluster = make_selection(["*.safetensors"], ["x/"])
    assert choose(RequestedSelection(), cluster) == cluster
    assert choose(RequestedSelection(allow=("*",)), cluster) == WHOLE
    assert choose(RequestedSelection(ignore=("y",)), cluster) == Selection(ignore=("y",))


def test_the_selection_of_a_base_model_is_read_from_its_storage_parameters() -> None:
    requested = requested_in_parameters(
        {
            "allowPatterns": "*.safetensors, *.json\n tokenizer.model ,",
            "ignorePatterns": "original/",
            "duplicateWeights": "skip",
            "allowPickle": "false",
            "secretKey": "x",
        }
    )
    assert requested == RequestedSelection(
        ("*.safetensors", "*.json", "tokenizer.model"), ("original/",), "skip", pickle=False
    )
    assert requested_in_parameters({}) == RequestedSelection()
    assert split_patterns("") == ()


@pytest.mark.parametrize(
    ("name", "text", "ways"), [("allowPickle", "no", "true or false"), ("duplicateWeights", "drop", "keep or skip")]
)
def test_a_typo_is_reported_and_not_taken_for_consent(name: str, text: str, ways: str) -> None:
    with pytest.raises(ValueError, match=f"storage.parameters.{name} is '{text}'; write {ways}"):
        requested_in_parameters({name: text})


def test_patterns_have_bounds() -> None:
    with pytest.raises(ValueError, match="101 file patterns"):
        make_selection([f"{n}" for n in range(101)])
    with pytest.raises(ValueError, match="513 characters"):
        make_selection(["x" * 513])

import re

from hypothesis import given
from hypothesis import strategies as st

from shared.names import (
    draining_label,
    fetching_label,
    manifest_name,
    model_id,
    ready_label,
    short_id,
    snapshot_label,
    snapshot_path,
    uses_label,
)

LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
dns = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?", fullmatch=True)
namespaces = st.just("") | st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
revisions = st.text("0123456789abcdef", min_size=40, max_size=40)


@given(namespaces, dns, revisions)
def test_generated_names_and_labels_are_valid_in_kubernetes(namespace: str, name: str, revision: str) -> None:
    identity = model_id(namespace, name)
    of_files = (label(identity, revision) for label in (snapshot_label, fetching_label, draining_label))
    labels = (*of_files, uses_label(identity))
    for key in (ready_label(identity), *labels):
        prefix, _, label = key.rpartition("/")
        assert LABEL_NAME.fullmatch(label)
        assert prefix in ("", "snapshot.larder.dev", "fetching.larder.dev", "draining.larder.dev", "model.larder.dev")
    assert len(short_id(identity)) <= 45
    assert snapshot_path(identity, revision).count("/") == 2


@given(st.lists(st.tuples(namespaces, dns), min_size=2, max_size=2, unique=True))
def test_two_models_never_share_a_name(models: list[tuple[str, str]]) -> None:
    one, other = (model_id(*m) for m in models)
    assert one != other
    assert short_id(one) != short_id(other)
    assert ready_label(one) != ready_label(other)


def test_ids_labels_and_names_have_their_documented_forms() -> None:
    assert model_id("", "llama") == "llama"
    assert model_id("team", "llama") == "team_llama"
    assert ready_label("llama") == "model-cache-ready-llama"
    cut = short_id("a" * 46)
    assert cut == "a" * 28 + "-" + cut[-16:]
    assert short_id("a" * 45) == "a" * 45
    assert re.fullmatch(r"snapshot\.larder\.dev/[0-9a-f]{20}", snapshot_label("llama", "c0ffee"))
    assert fetching_label("llama", "c0ffee") == snapshot_label("llama", "c0ffee").replace("snapshot.", "fetching.")
    assert snapshot_label("a", "bc") != snapshot_label("ab", "c")
    assert manifest_name("d" * 64) == "manifest-" + "d" * 64

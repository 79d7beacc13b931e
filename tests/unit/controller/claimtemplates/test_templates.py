"""Volume claim templates become claims and volumes of a pod."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.claimtemplates.templates import (
    MAX_TEMPLATES,
    TEMPLATE_LABEL,
    ClaimOwner,
    InvalidTemplates,
    claim_body,
    claim_name,
    claim_volumes,
    is_controlled,
    name_problem,
    parse_templates,
    templates_without_volume,
)
from shared.kube.objects import Meta

OWNER = ClaimOwner("kubeflow.org/v1beta1", "TFJob", "mytf", "xxxxxxx")
SPEC: dict[str, Any] = {
    "storageClassName": "my-ebs-vol",
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "100Gi"}},
}


def written(name: str = "my-data", **changes: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": SPEC} | changes


def test_the_example_of_the_proposal_gives_its_claim_and_volume() -> None:
    (template,) = parse_templates([written()], "volumeClaimTemplates")
    assert claim_body(template, "team-a", "mytf-worker-0", OWNER, {"job": "mytf"}) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "my-data-mytf-worker-0",
            "namespace": "team-a",
            "labels": {"job": "mytf", TEMPLATE_LABEL: "my-data", "app.kubernetes.io/managed-by": "larder"},
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1beta1",
                    "kind": "TFJob",
                    "name": "mytf",
                    "uid": "xxxxxxx",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": SPEC,
    }
    assert claim_volumes([template], "mytf-worker-0") == [
        {"name": "my-data", "persistentVolumeClaim": {"claimName": "my-data-mytf-worker-0"}}
    ]


def test_a_volume_of_the_pod_takes_precedence_over_a_template_of_its_name() -> None:
    templates = parse_templates([written("a"), written("b")], "here")
    pod = {"volumes": [{"name": "a", "emptyDir": {}}, "malformed"]}
    assert [template.name for template in templates_without_volume(templates, pod)] == ["b"]
    assert templates_without_volume(templates, {"volumes": None}) == templates


def test_labels_and_annotations_of_a_template_are_kept_below_our_labels() -> None:
    metadata = {"name": "a", "labels": {"team": "x", "job": "mine"}, "annotations": {"note": "y"}}
    (template,) = parse_templates([written(metadata=metadata)], "here")
    made = claim_body(template, "n", "p", OWNER, {"job": "ours"})["metadata"]
    assert (made["labels"]["team"], made["labels"]["job"], made["annotations"]) == ("x", "ours", {"note": "y"})


def test_fields_that_go_programs_write_unasked_are_ignored() -> None:
    item = written(metadata={"name": "a", "creationTimestamp": None}, status={}, apiVersion="v1", kind="X")
    assert parse_templates([item], "here")[0].name == "a"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("text", r"here\[0\]: write a PersistentVolumeClaim"),
        ({"spec": SPEC}, r"here\[0\]\.metadata: missing"),
        ({"metadata": {"name": "a"}}, r"here\[0\]\.spec: missing"),
        (written("A"), r"metadata\.name: write the name of a volume"),
        (written("a" * 64), r"metadata\.name"),
        (written("a.b"), r"metadata\.name"),
        (written(metadata={"name": "a", "finalizers": ["x"]}), r"metadata\.finalizers: may not be set"),
        (
            written(metadata={"name": "a", "labels": {"x": 1}}),
            r"metadata\.labels: write an object whose values are strings",
        ),
        (written(metadata={"name": "a", "labels": {"larder.dev/volume": "true"}}), r"Larder sets the keys"),
        (written(metadata={"name": "a", "annotations": {"model.larder.dev/x": ""}}), r"Larder sets the keys"),
        (written(spec=SPEC | {"volumeName": "theirs"}), r"spec\.volumeName: may not be set"),
        (written(spec=SPEC | {"accessModes": []}), r"spec\.accessModes: name at least one"),
        (written(spec=SPEC | {"accessModes": "ReadWriteOnce"}), r"spec\.accessModes"),
        (written(spec=SPEC | {"resources": {}}), r"spec\.resources\.requests\.storage: write a size"),
        (written(spec=SPEC | {"resources": {"requests": {"storage": "lots"}}}), r"requests\.storage"),
        (written(spec=SPEC | {"resources": {"requests": {"storage": "0"}}}), r"requests\.storage"),
        (written(spec=SPEC | {"resources": {"requests": {"storage": "1" * 400}}}), r"requests\.storage"),
        (written(extra=1), r"here\[0\]\.extra: a template has only metadata and spec"),
        (written(spec=SPEC | {"selector": {"x": "y" * 20_000}}), r"at most 16384 are allowed"),
    ],
)
def test_an_invalid_template_is_refused_with_its_place(item: object, message: str) -> None:
    with pytest.raises(InvalidTemplates, match=message):
        parse_templates([item], "here")


def test_templates_are_a_bounded_list_with_unique_names() -> None:
    with pytest.raises(InvalidTemplates, match="here: write a list"):
        parse_templates({"a": 1}, "here")
    with pytest.raises(InvalidTemplates, match="17 templates; at most 16"):
        parse_templates([written(f"v{index}") for index in range(MAX_TEMPLATES + 1)], "here")
    with pytest.raises(InvalidTemplates, match="two templates are named 'a'"):
        parse_templates([written("a"), written("b"), written("a")], "here")


def test_claim_names_follow_the_proposal_and_are_bounded() -> None:
    assert claim_name("my-data", "mytf-worker-0") == "my-data-mytf-worker-0"
    assert name_problem("a" * 253) == ""
    assert "has 254 characters, and at most 253" in name_problem("a" * 254)


def test_only_the_controlling_owner_counts() -> None:
    assert is_controlled(Meta(owner_references=[OWNER.reference()]), "xxxxxxx")
    assert not is_controlled(Meta(owner_references=[OWNER.reference()]), "another")
    assert not is_controlled(Meta(owner_references=[OWNER.reference() | {"controller": False}]), "xxxxxxx")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON | st.lists(st.fixed_dictionaries({"metadata": _JSON, "spec": _JSON}), max_size=3))
def test_any_templates_are_parsed_or_refused(anything: object) -> None:
    with suppress(InvalidTemplates):
        assert len(parse_templates(anything, "here")) <= MAX_TEMPLATES

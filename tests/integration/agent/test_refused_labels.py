"""A policy that refuses the agent's labels is visible in the status of the models that it concerns."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from rig.api import Api
from rig.errors import CallRefused
from shared.names import ready_label
from tests.integration.agent.node_under_test import Bench

FILES = {"config.json": b"{}"}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@contextmanager
def refusing_changes(api: Api, node: str, label: str) -> Iterator[None]:
    """Let a policy refuse every change of a label of a Node."""
    name = f"no-labels-on-{node}"
    has = f"has({{}}.metadata.labels) && '{label}' in {{}}.metadata.labels"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule | {"resourceNames": [node]}]},
        "validations": [
            {
                "expression": f"({has.format('object', 'object')}) == ({has.format('oldObject', 'oldObject')})",
                "message": "labels of Nodes are managed by the platform team",
            }
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    api.create(f"{REGISTRATION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    api.create(f"{REGISTRATION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        api.delete(f"{REGISTRATION}/validatingadmissionpolicybindings/{name}")
        api.delete(f"{REGISTRATION}/validatingadmissionpolicies/{name}")


def in_force(api: Api, node: str, label: str) -> bool:
    """Return whether the policy refuses the label, which may take a moment; the label is not changed."""
    path, has = (
        f"/api/v1/nodes/{node}?dryRun=All",
        label in api.get(f"/api/v1/nodes/{node}")["metadata"].get("labels", {}),
    )
    try:
        api.patch(path, {"metadata": {"labels": {label: None if has else "true"}}})
    except CallRefused:
        return True
    return False


def test_a_complete_model_says_why_it_has_no_labels_until_they_are_accepted(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    label = ready_label("llama")
    with refusing_changes(bench.api, bench.node, label):
        bench.wait_for(lambda: in_force(bench.api, bench.node, label), "the policy")
        bench.want(model.entry)
        bench.start(ready=False)
        status = bench.wait_phase(model, "Downloading", "LabelsRefused")
        assert "managed by the platform team" in status.message
        assert status.attempts == 1
        assert bench.is_complete(model)
    bench.wait_phase(model, "Ready", "")
    assert bench.has_labels(model)


def test_a_removal_says_why_it_waits_while_its_labels_may_not_be_removed(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    label = ready_label("llama")
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    with refusing_changes(bench.api, bench.node, label):
        bench.wait_for(lambda: in_force(bench.api, bench.node, label), "the policy")
        bench.want(msgspec.structs.replace(model.entry, state="Draining"))
        bench.wait_phase(model, "Ready", "LabelsRefused")
        bench.want(msgspec.structs.replace(model.entry, state="Absent"))
        bench.wait_phase(model, "Draining", "LabelsRefused")
        assert bench.is_complete(model)
    bench.wait_phase(model, "Absent", "")

"""The identity that a pod shares with its replacements."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.replica_claims.identity import JOB_INDEX, REPLICA_TYPE, NoIdentity, controller_of, identity_of

REPLICA_INDEX = "training.kubeflow.org/replica-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def owner(kind: str, name: str = "train", api_version: str = "") -> dict[str, Any]:
    versions = {"Job": "batch/v1", "StatefulSet": "apps/v1", "PyTorchJob": "kubeflow.org/v1"}
    return {"apiVersion": api_version or versions.get(kind, "v1"), "kind": kind, "name": name, "uid": "u"}


@pytest.mark.parametrize(
    ("name", "labels", "annotations", "controller", "identity"),
    [
        ("train-3-x7k2p", {JOB_INDEX: "3"}, {}, owner("Job"), "train-3"),
        ("", {}, {JOB_INDEX: "3"}, owner("Job"), "train-3"),
        ("train-3-x7k2p", {JOB_INDEX: "3"}, {JOB_INDEX: "4"}, owner("Job"), "train-3"),
        ("db-0", {}, {}, owner("StatefulSet", "db"), "db-0"),
        ("db-0", {POD_INDEX: "0"}, {}, owner("StatefulSet", "db"), "db-0"),
        (
            "train-worker-3",
            {REPLICA_TYPE: "worker", REPLICA_INDEX: "3"},
            {},
            owner("PyTorchJob"),
            "train-worker-3",
        ),
        ("", {REPLICA_TYPE: "Worker", REPLICA_INDEX: "3"}, {}, owner("PyTorchJob"), "train-worker-3"),
        ("", {REPLICA_INDEX: "3"}, {}, owner("PyTorchJob"), "train-3"),
        ("", {REPLICA_TYPE: "../x", REPLICA_INDEX: "3"}, {}, owner("PyTorchJob"), "train-3"),
        ("lws-0-1", {WORKER_INDEX: "1"}, {}, owner("StatefulSet", "lws-0"), "lws-0-1"),
        ("other", {POD_INDEX: "7"}, {}, owner("Theirs"), "other"),
        ("train-0", {}, {}, owner("Job", api_version="example.org/v1"), "train-0"),
    ],
)
def test_the_identity_of_a_pod_follows_from_its_controller_and_index(
    name: str, labels: dict[str, str], annotations: dict[str, str], controller: dict[str, Any], identity: str
) -> None:
    assert identity_of(name, labels, annotations, controller) == identity


@pytest.mark.parametrize(
    ("name", "labels", "controller"),
    [
        ("train-x7k2p", {}, owner("Job")),
        ("train-x7k2p", {JOB_INDEX: ""}, owner("Job")),
        ("train-x7k2p", {JOB_INDEX: "-1"}, owner("Job")),
        ("train-x7k2p", {JOB_INDEX: "1/../2"}, owner("Job")),
        ("train-x7k2p", {JOB_INDEX: "1" * 10}, owner("Job")),
        ("train-x7k2p", {JOB_INDEX: "\u0663"}, owner("Job")),  # a digit, but not one that is allowed in names
        ("web-5c9-x7k2p", {}, owner("ReplicaSet", "web-5c9")),
        ("other-0", {}, owner("StatefulSet", "db")),
        ("", {}, owner("StatefulSet", "db")),
        ("db-0-x", {POD_INDEX: "zero"}, owner("StatefulSet", "db")),
    ],
)
def test_a_pod_without_an_index_has_none(name: str, labels: dict[str, str], controller: dict[str, Any]) -> None:
    with pytest.raises(NoIdentity, match=f"the pods of {controller['kind']} {controller['name']} have no index"):
        identity_of(name, labels, {}, controller)


@given(st.integers(0, 10**9 - 1), st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=5, max_size=5))
def test_a_replacement_pod_keeps_the_identity_of_its_index(index: int, suffix: str) -> None:
    labels, job = {JOB_INDEX: str(index)}, owner("Job")
    found = identity_of(f"train-{index}-{suffix}", labels, {}, job)
    assert found == identity_of("", labels, {}, job)
    assert found != identity_of("", {JOB_INDEX: str(index + 1)[:9]}, {}, job) or str(index + 1)[:9] == str(index)


@pytest.mark.parametrize(
    ("owners", "found"),
    [
        ([], None),
        ([owner("Job")], None),
        ([owner("Job") | {"controller": "true"}], None),
        ([owner("Other"), owner("Job") | {"controller": True}], "Job"),
    ],
)
def test_only_an_owner_reference_marked_as_controller_is_the_controller(
    owners: list[dict[str, Any]], found: str | None
) -> None:
    controller = controller_of(owners)
    assert (controller["kind"] if controller is not None else None) == found

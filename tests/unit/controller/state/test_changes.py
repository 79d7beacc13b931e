"""Which waiting pods a change of a node queues."""

import pytest

from controller.state.changes import changed_snapshot_labels
from shared.api.core import Node
from shared.kube.objects import Meta
from shared.names import draining_label, fetching_label, ready_label, snapshot_label

X, Y = snapshot_label("x", "r1"), snapshot_label("y", "r1")


def node(*labels: str, uid: str = "1") -> Node:
    return Node(metadata=Meta(name="n", uid=uid, labels=dict.fromkeys(labels, "true")))


def test_a_label_that_is_added_or_removed_wakes_its_snapshot() -> None:
    assert changed_snapshot_labels(None, node(X)) == {X}
    assert changed_snapshot_labels(node(X), node(X, Y)) == {Y}
    assert changed_snapshot_labels(node(X, Y), node(X)) == {Y}
    assert changed_snapshot_labels(node(X, Y), None) == {X, Y}
    assert changed_snapshot_labels(node(X), node(X)) == frozenset()


@pytest.mark.parametrize("other", ["zone", ready_label("y")])
def test_any_other_label_wakes_every_snapshot_on_the_node(other: str) -> None:
    assert changed_snapshot_labels(node(Y), node(Y, other)) == {Y}
    assert changed_snapshot_labels(node(Y), node(Y, X, other)) == {X, Y}
    assert changed_snapshot_labels(node(X, Y), node(Y, other)) == {X, Y}


def test_a_replaced_node_of_the_same_name_counts_as_a_change_of_all_its_labels() -> None:
    assert changed_snapshot_labels(node(Y), node(Y, uid="2")) == {Y}
    assert changed_snapshot_labels(node(Y), node(Y, X, uid="2")) == {X, Y}


@pytest.mark.parametrize("label", [fetching_label("x", "r1"), draining_label("y", "r1")])
def test_labels_that_no_gated_pod_requires_wake_nothing(label: str) -> None:
    assert changed_snapshot_labels(node(Y), node(Y, label)) == frozenset()

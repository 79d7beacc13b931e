"""Which fields of an object a write of its status keeps."""

from controller.manager.write import merged
from shared.api.base_model import BaseModelStatus
from shared.api.meta import Condition
from shared.api.model_node import ModelNodeSpec

READY = Condition(type="Ready", status="True", reason="Stocked", last_transition_time="t")


def test_foreign_status_fields_are_kept_and_our_own_are_replaced() -> None:
    found = {"state": "Failed", "nodesReady": ["a"], "nodesFailed": ["b"], "theirs": {"deep": [1]}, "phase": "x"}
    status = BaseModelStatus(state="Ready", nodes_ready=["c"])
    assert merged(found, status) == {"state": "Ready", "nodesReady": ["c"], "theirs": {"deep": [1]}, "phase": "x"}


def test_foreign_conditions_and_their_unknown_keys_are_kept() -> None:
    theirs = {"type": "Audited", "status": "True", "severity": "none"}
    ours = {"type": "Ready", "status": "False", "reason": "Old", "message": "m", "lastTransitionTime": "s", "by": "x"}
    wanted = merged({"conditions": [theirs, ours]}, BaseModelStatus(conditions=[READY]))["conditions"]
    assert wanted[1] == theirs
    assert (wanted[0]["status"], wanted[0]["reason"], wanted[0]["by"]) == ("True", "Stocked", "x")
    assert merged({"conditions": [theirs]}, BaseModelStatus()) == {"conditions": [theirs]}


def test_a_status_without_conditions_gets_none() -> None:
    assert merged({}, ModelNodeSpec(node_uid="u")) == {"nodeUID": "u"}

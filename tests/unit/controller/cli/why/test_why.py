"""What `larder why` finds in small clusters; each test breaks one thing."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shared.errors
from controller.cli.why.command import diagnose, render
from controller.cli.why.findings import Diagnosis, Severity, wait
from controller.cli.why.groups import why_group
from controller.cli.why.kinds import ObservedNode, ObservedPod, ObservedPodSpec, ObservedPodStatus, Taint, Toleration
from controller.cli.why.nodes import why_node
from controller.cli.why.observe import Observer, leader_of
from controller.cli.why.observe_objects import ObjectObserver
from controller.cli.why.pods import why_pod
from controller.cli.why.remedies import REMEDIES
from controller.cli.why.subject import Subject, parse_subject
from controller.cli.why.view import ClusterView, DeclaredModel, LeaseHolder
from controller.models.kstatus import TRANSIENT
from controller.state.kinds.crds import PATH as DEFINITIONS_PATH
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES, Affinity, ObservedCondition
from shared.api.kinds import CLUSTER_BASE_MODEL, DEFINITIONS
from shared.api.meta import Condition, NodeState, ReadMetadata
from shared.api.model_node import EntryState, Phase
from shared.errors import LarderError
from shared.kube.errors import Refused
from shared.names import ready_label
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import (
    base_model,
    cache,
    cluster_model,
    entry,
    entry_status,
    group,
    meta,
    model_node,
)
from tests.builders.why import (
    GPU,
    LABELS,
    agent,
    at_a,
    declared,
    node,
    node_with_model,
    of_model,
    reasons,
    reported,
    seen,
    with_entry,
    with_status,
)


def test_no_findings_are_reported_for_a_healthy_model_node_and_group() -> None:
    assert reasons(of_model(seen())) == set()
    assert of_model(seen()).summary == "no problems found"
    assert reasons(why_node("a", seen())) == set()
    assert reasons(why_group("gpus", seen())) == set()


def test_a_missing_or_silent_leader_is_reported() -> None:
    for leader in (LeaseHolder(), LeaseHolder("controller-0", expired=True)):
        assert reasons(of_model(seen(leader=leader)), Severity.STOP) == {"NoLeader"}
    assert reasons(of_model(seen(leader=None))) == set(), "nothing is reported about a Lease that the user may not read"


@pytest.mark.parametrize(
    ("cluster", "reason", "weight"),
    [
        (seen(nodes=(node("a", GPU, ready=False), node("b", GPU | LABELS))), "NotReady", Severity.STOP),
        (seen(agents={"b": (agent("b"),)}), "NoAgent", Severity.STOP),
        (seen(agents={"a": (agent("a", ready=False),), "b": (agent("b"),)}), "AgentNotReady", Severity.STOP),
        (seen(model_nodes={"b": node_with_model("b")}), "NoModelNode", Severity.WAIT),
        (at_a(node_with_model("a", node_uid="uid-old")), "OtherNode", Severity.WAIT),
        (at_a(node_with_model("a", node_uid="")), "NeverReported", Severity.WAIT),
        (at_a(with_status(node_with_model("a"), observed_generation=0)), "Behind", Severity.WAIT),
        (
            at_a(node_with_model("a", "Failed", "InsufficientStorage", "need 8, have 3")),
            "InsufficientStorage",
            Severity.STOP,
        ),
        (
            at_a(node_with_model("a", "Pending", "InsufficientStorage", "need 8, have 3")),
            "InsufficientStorage",
            Severity.STOP,
        ),
        (at_a(node_with_model("a", "Failed", "AuthDenied", "refused")), "AuthDenied", Severity.STOP),
        (at_a(node_with_model("a", "Failed", "Unreachable", "no route")), "Unreachable", Severity.STOP),
        (at_a(node_with_model("a", "Pending", "NotGranted", "not listed")), "NotGranted", Severity.WAIT),
        (at_a(node_with_model("a", "Downloading", "Unreachable", "reset")), "Unreachable", Severity.WAIT),
        (at_a(node_with_model("a", "Downloading", "LabelsRefused", "denied")), "LabelsRefused", Severity.STOP),
        (at_a(node_with_model("a", "Downloading")), "Downloading", Severity.WAIT),
        (at_a(node_with_model("a", "Repairing", "FilesDamaged", "1 file")), "FilesDamaged", Severity.STOP),
        (at_a(node_with_model("a", "Pending")), "Pending", Severity.WAIT),
        (at_a(node_with_model("a", "Waiting")), "NoSlot", Severity.WAIT),
        (at_a(with_entry(node_with_model("a", "Waiting"), granted=False)), "WaitingForGrant", Severity.WAIT),
        (at_a(with_entry(node_with_model("a"), state=EntryState.DRAINING)), "Draining", Severity.WAIT),
        (at_a(with_entry(node_with_model("a"), claims=[])), "NotClaimed", Severity.WAIT),
        (at_a(model_node("a", observed_generation=1)), "NotPlaced", Severity.WAIT),
    ],
)
def test_a_problem_of_one_node_is_reported_for_its_model(cluster: ClusterView, reason: str, weight: Severity) -> None:
    assert reason in reasons(of_model(cluster), weight)
    if reason not in ("NotPlaced", "NotClaimed"):
        assert reason in reasons(why_node("a", cluster), weight)


def test_the_message_of_the_agent_and_a_remedy_are_reported() -> None:
    answer = of_model(at_a(node_with_model("a", "Failed", "InsufficientStorage", "need 8, have 3")))
    assert answer.summary == "m on node/a: InsufficientStorage"
    assert "need 8, have 3" in render(answer)
    assert "fix: remove a model, raise storageLimit" in render(answer)


def test_control_characters_in_what_others_wrote_do_not_reach_the_terminal() -> None:
    answer = Diagnosis("pod a/b", (wait("claim/\x1b[2J", "Bad\x9b", "m\x07", "r\x1b"),))
    assert all(line.isprintable() for line in render(answer).splitlines())


def test_the_holders_of_the_slots_are_named() -> None:
    waiting = with_entry(node_with_model("a", "Waiting"), granted=False)
    cluster = seen(
        model_nodes={"a": waiting, "b": node_with_model("b", "Downloading")},
        groups=(group("gpus", GPU, max_concurrent_nodes=1),),
    )
    assert "group gpus lets 1 nodes download at a time; now downloading: b" in render(of_model(cluster))
    assert "1 of 1 are in use: b" in render(why_group("gpus", cluster))


def test_a_taint_is_named_if_the_node_has_no_agent() -> None:
    tainted = node("a", GPU, taints=[Taint(key="gpu", effect="NoSchedule"), Taint(key="x", effect="PreferNoSchedule")])
    text = render(why_node("a", seen(nodes=(tainted,), agents={})))
    assert "(node taints: gpu:NoSchedule)" in text


def test_a_current_agent_is_not_reported_as_too_old() -> None:
    assert "OldAgent" not in reasons(why_node("a", at_a(node_with_model("a"))))


def test_a_node_in_several_groups_has_the_smallest_limit() -> None:
    groups = (group("gpus", GPU, storage_limit="2Gi"), group("small", GPU, storage_limit="1Gi"))
    assert "gpus, small; limit 1.0 GiB; the smallest limit of its groups applies" in render(
        why_node("a", seen(groups=groups))
    )


def test_a_store_over_its_limit_is_reported() -> None:
    found = node_with_model("a", used=200)
    limited = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, storage_limit=100))
    assert "OverLimit" in reasons(why_node("a", at_a(limited)), Severity.STOP)


def test_files_and_labels_that_do_not_match_are_reported() -> None:
    bare = seen(nodes=(node("a", GPU), node("b", GPU | LABELS)))
    assert "MissingLabels" in reasons(why_node("a", bare), Severity.STOP)
    stray = seen(nodes=(node("a", GPU | LABELS | {ready_label("gone"): "true"}),))
    assert "StrayLabels" in reasons(why_node("a", stray), Severity.STOP)
    unnamed = model_node("a", reported=[entry_status("old", Phase.UNKNOWN)], observed_generation=1)
    assert "UnknownFiles" in reasons(why_node("a", at_a(unnamed)), Severity.WAIT)


def unresolved(*says: Condition, **fields: Any) -> ClusterView:
    return seen(declared(cache("m", "gpus", revision="", **fields), says=says))


def test_a_group_reports_whether_idle_models_are_evicted() -> None:
    assert "make room" not in render(why_group("gpus", seen()))
    lru = group("gpus", GPU, eviction_policy="LeastRecentlyUsed")
    assert "idle models are evicted to make room" in render(why_group("gpus", seen(groups=(lru,))))


def test_a_group_names_nodes_where_another_group_forbids_eviction() -> None:
    lru = group("gpus", GPU, eviction_policy="LeastRecentlyUsed")
    nodes = (node("a", GPU), node("b", GPU | {"zone": "x"}))
    some = render(why_group("gpus", seen(groups=(lru, group("zone", {"zone": "x"})), nodes=nodes)))
    assert "evicted to make room, except on b, where another group has evictionPolicy Never" in some
    none = render(why_group("gpus", seen(groups=(lru, group("all", GPU)), nodes=nodes)))
    assert "no idle models are evicted, because another group of each node has evictionPolicy Never" in none


def test_a_token_of_an_earlier_node_has_a_remedy() -> None:
    refused = at_a(node_with_model("a", "Pending", "NotGranted", "the token is of an earlier node named a"))
    assert "restart the agent's pod in case its token belongs to an earlier node" in render(of_model(refused))


def test_an_unmanaged_model_is_not_reported_as_unobserved() -> None:
    found = declared(cluster_model("m", GPU, uri="vendor://x"))
    answer = of_model(seen(replace(found, status=msgspec.structs.replace(found.status, observed_generation=0))))
    assert "NotObserved" not in reasons(answer)
    assert "Foreign: Larder does not manage vendor:// models" in render(answer)


@pytest.mark.parametrize(
    ("labels", "annotations", "reason"),
    [
        ({}, {}, "NotManaged"),
        ({}, {"larder.dev/managed": "true"}, "NotObserved"),
        ({"app.kubernetes.io/part-of": "larder"}, {}, "NotObserved"),
    ],
)
async def test_another_products_model_is_reported_as_unmanaged_unless_it_opts_in(
    tmp_path: Path, labels: dict[str, str], annotations: dict[str, str], reason: str
) -> None:
    found = cluster_model("m", GPU, annotations=annotations)
    there: dict[str, Any] = {d.path: listed() for d in DEFINITIONS} | {
        NODES: listed(),
        "/api/v1/namespaces/larder-system/pods": listed(),
        CLUSTER_BASE_MODEL.path: listed(msgspec.to_builtins(found)),
        f"{DEFINITIONS_PATH}/{CLUSTER_BASE_MODEL.name}": {"metadata": {"name": "x", "labels": labels}},
    }
    async with serving(Objects(there), tmp_path) as kube:
        observer = Observer(kube, "larder-system", lambda: datetime.now(UTC))
        answer = await diagnose(Subject("ClusterBaseModel", "", "m"), observer, ObjectObserver(kube, "larder-system"))
    assert {"NotManaged", "NotObserved"} & reasons(answer) == {reason}


def test_a_model_that_was_evicted_on_a_node_is_reported_with_a_remedy() -> None:
    phrase = "evicted since noon to make room for new"
    reported = [entry_status("m", "Absent", reason="Evicted", message=phrase)]
    mn = model_node("a", entry("m", state="Absent", evicted_for="new"), reported=reported)
    answer = why_node("a", seen(nodes=(node("a", GPU),), model_nodes={"a": mn}))
    (finding,) = [f for f in answer.findings if f.reason == "Evicted"]
    assert (finding.severity, finding.message) == (Severity.STOP, phrase)
    assert "larder.dev/pin" in finding.remedy


@pytest.mark.parametrize(
    ("reason", "weight"), [(r, Severity.WAIT if r in TRANSIENT else Severity.STOP) for r in REMEDIES]
)
def test_an_unresolved_source_is_reported_with_its_reason(reason: str, weight: Severity) -> None:
    assert reason in reasons(of_model(unresolved(reported(reason, "words"))), weight)


def test_a_source_being_resolved_is_reported_as_waiting() -> None:
    for cluster in (unresolved(), unresolved(reported("Resolving"))):
        assert reasons(of_model(cluster), Severity.WAIT) == {"Resolving"}


def test_a_missing_or_wrong_secret_is_reported() -> None:
    assert "NoSecret" in reasons(of_model(unresolved(reported("AuthDenied", "wants some"))), Severity.STOP)
    named = seen(declared(base_model("team", "m", secret="reader"), says=[reported("AuthDenied")]))
    text = render(of_model(named))
    assert "Secret reader in namespace team; it must be labelled larder.dev/credentials=true" in text
    assert "NoSecret" not in text


def test_a_model_that_matches_no_node_is_reported_with_its_selectors() -> None:
    cluster = seen(declared(cluster_model("m", {"gpu": "no", "zone": "x"})))
    text = render(of_model(cluster))
    assert "none of 2 nodes matches; gpu=no is on 0, zone=x is on 0" in text
    missing = seen(declared(cache("m", "nowhere")))
    assert {"UnknownGroup", "NoNodes"} <= reasons(of_model(missing), Severity.STOP)
    assert "existing groups: gpus" in render(of_model(missing))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (cache("m", "gpus", uri="ftp://x"), "InvalidURI"),
        (cluster_model("m", GPU, uri="pvc://team:claim/x"), "OnClaim"),
        (cluster_model("m", GPU, uri="vendor://x"), "Foreign"),
        (cache("m", "gpus", deletion_timestamp="2026-01-01T00:00:00Z"), "Deleting"),
    ],
)
def test_a_reason_in_the_model_itself_is_reported_instead_of_missing_nodes(
    model: ClusterModelCache | BaseModel, reason: str
) -> None:
    answer = of_model(seen(declared(model)))
    assert reason in reasons(answer, *Severity)
    assert "NoNodes" not in reasons(answer, *Severity)


@pytest.mark.parametrize("reason", ["InUse", "UsersUnknown"])
def test_the_deletion_of_a_model_that_may_have_users_is_not_said_to_end_by_itself(reason: str) -> None:
    deleted = cache("m", "gpus", deletion_timestamp="2026-01-01T00:00:00Z")
    ready = Condition(type="Ready", status="False", reason=reason, message="by pod ns/p", last_transition_time="t")
    answer = of_model(seen(declared(deleted, says=[ready])))
    assert wait("ClusterModelCache m", reason, "by pod ns/p") in answer.findings


@pytest.mark.parametrize(
    ("status", "reason", "weight"),
    [
        ("False", "PVCNotFound", Severity.STOP),
        ("False", "PathNotFound", Severity.STOP),
        ("False", "Reading", Severity.WAIT),
        ("False", "WaitForFirstConsumer", Severity.WAIT),
        ("Unknown", "NotPermitted", Severity.STOP),
        ("True", "OnClaim", Severity.FACT),
        ("True", "ClaimInUse", Severity.STOP),
    ],
)
def test_problems_of_a_models_claim_are_reported(status: str, reason: str, weight: Severity) -> None:
    model = cluster_model("m", GPU, uri="pvc://team:claim/x")
    ready = Condition(type="Ready", status=status, reason=reason, message="words", last_transition_time="t")
    metadata = Condition(
        type="Metadata", status="False", reason="OutOfMemory", message="of it", last_transition_time="t"
    )
    answer = of_model(seen(declared(model, says=[ready, metadata])))
    assert reason in reasons(answer, weight)
    assert "OutOfMemory" in reasons(answer, Severity.STOP)
    assert "pvc/claim in namespace team" in render(answer)


@pytest.mark.parametrize("kind", ["Ready", "Metadata"])
@pytest.mark.parametrize(
    ("reason", "phrase"),
    [
        ("UnsafePath", "replace the symbolic link with what it points to"),
        ("SourceNotFound", "replace the dangling link"),
        ("Unreachable", "check the claim's volume"),
        ("DeadlineExceeded", "find out why the volume is slow"),
        ("OutOfMemory", "write the model's metadata into its spec"),
    ],
)
def test_a_failure_of_the_job_that_reads_a_claim_has_a_remedy_of_its_own(kind: str, reason: str, phrase: str) -> None:
    model = cluster_model("m", GPU, uri="pvc://team:claim/x")
    failed = Condition(type=kind, status="False", reason=reason, message="words", last_transition_time="t")
    (found,) = [f for f in of_model(seen(declared(model, says=[failed]))).findings if f.reason == reason]
    assert phrase in found.remedy
    assert "source" not in found.remedy


def test_an_unsafe_name_of_a_source_has_the_remedy_for_a_source() -> None:
    assert "fix: rename the file at the source" in render(of_model(unresolved(reported("UnsafePath", "words"))))


def with_values(found: DeclaredModel, values: dict[str, Any]) -> DeclaredModel:
    """Return the model with these metadata values."""
    return replace(found, status=msgspec.structs.replace(found.status, metadata=ReadMetadata(values=values)))


def test_the_metadata_of_a_model_or_the_reason_for_its_absence_is_reported() -> None:
    found = declared(cache("m", "gpus"))
    known = with_values(found, {"architectures": ["LlamaForCausalLM"], "parameters": 8_030_000_000})
    assert "LlamaForCausalLM, 8.03B parameters" in render(of_model(seen(known)))
    assert "Model" not in reasons(of_model(seen(found)), Severity.FACT)
    missing = Condition(
        type="Metadata", status="False", reason="MetadataMissing", message="of it", last_transition_time="t"
    )
    unknown = replace(found, status=msgspec.structs.replace(found.status, conditions=[missing]))
    assert "MetadataMissing" in reasons(of_model(seen(unknown)), Severity.FACT)
    forged = with_values(found, {"parameters": "many"})
    assert "Model" not in reasons(of_model(seen(forged)), Severity.FACT)


def test_nodes_that_still_list_a_deleted_model_are_named() -> None:
    gone = declared(cache("m", "gpus", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert "nodes that still list it: a, b" in render(of_model(seen(gone)))


def test_a_disabled_model_is_reported() -> None:
    model = cluster_model("m", GPU)
    off = msgspec.structs.replace(model, spec=msgspec.structs.replace(model.spec, disabled=True))
    assert reasons(of_model(seen(declared(off))), Severity.STOP) == {"Disabled"}


def test_the_older_object_of_the_same_id_is_named() -> None:
    older = declared(cluster_model("m", GPU, uri="hf://other/x", creation_timestamp="2025-01-01T00:00:00Z", uid="o"))
    answer = of_model(seen(declared(cache("m", "gpus")), older))
    assert answer.summary.endswith("NameConflict")
    assert "ClusterBaseModel m is older" in render(answer)


def test_an_old_revision_that_still_serves_new_pods_is_reported() -> None:
    found = declared(cache("m", "gpus"))
    old = replace(found, demand=replace(found.demand, serving="r0"))
    assert "NewRevision" in reasons(of_model(seen(old)), Severity.WAIT)


def test_a_spec_that_was_not_yet_observed_is_reported() -> None:
    found = declared(cache("m", "gpus"))
    late = replace(found, meta=meta("m", generation=9))
    assert "NotObserved" in reasons(of_model(seen(late)), Severity.WAIT)


def test_only_stuck_nodes_of_many_are_reported() -> None:
    names = [f"n{i:04}" for i in range(300)]
    cluster = seen(
        nodes=tuple(node(n, GPU | LABELS) for n in names),
        model_nodes={n: node_with_model(n) for n in names}
        | {"n0299": node_with_model("n0299", "Failed", "StoreFailure", "EIO")},
        agents={n: (agent(n),) for n in names},
    )
    answer = of_model(cluster)
    assert answer.summary == "m on node/n0299: StoreFailure"
    assert "292 more nodes, 292 of them Ready" in render(answer)
    assert len(answer.findings) < 20


def pod(annotations: Mapping[str, str], *, namespace: str = "team", **spec: Any) -> ObservedPod:
    status = spec.pop("status", ObservedPodStatus(phase="Pending"))
    return ObservedPod(
        metadata=meta("p", namespace=namespace, annotations=dict(annotations)),
        spec=ObservedPodSpec(**spec),
        status=status,
    )


def injected_pod(**fields: Any) -> ObservedPod:
    return pod({"ome.io/base-model-name": "m", "larder.dev/models": "m@r1"}, **({"node_selector": LABELS} | fields))


@pytest.mark.parametrize(
    ("annotations", "namespace", "reason"),
    [
        ({}, "team", "AsksForNoModel"),
        ({"ome.io/base-model-name": "m"}, "team", "NotInjected"),
        ({"ome.io/base-model-name": "m"}, "larder-system", "ExcludedNamespace"),
        ({"serving.kserve.io/enable-model-cache": "true", "larder.dev/not-cached": "no cache"}, "team", "NotCached"),
    ],
)
def test_a_pod_that_was_given_no_model_is_reported_with_the_reason(
    annotations: dict[str, str], namespace: str, reason: str
) -> None:
    assert reason in reasons(why_pod(pod(annotations, namespace=namespace), seen()), Severity.STOP)


def test_a_pod_that_wants_no_cache_is_left_alone() -> None:
    answer = why_pod(pod({"serving.kserve.io/enable-model-cache": "false"}), seen())
    assert reasons(answer, Severity.STOP) == set()


def test_a_pod_that_fits_is_reported_with_the_schedulers_reason_only() -> None:
    unscheduled = ObservedCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="Insufficient cpu"
    )
    answer = why_pod(injected_pod(status=ObservedPodStatus(phase="Pending", conditions=[unscheduled])), seen())
    assert reasons(answer, Severity.STOP) == set()
    assert "Unschedulable: Insufficient cpu" in render(answer)


def test_a_label_that_no_node_has_is_reported_with_the_models_state() -> None:
    cluster = at_a(node_with_model("a", "Failed", "AuthDenied", "refused"), nodes=(node("a", GPU), node("b", GPU)))
    state = NodeState(name="a", phase="Failed", reason="AuthDenied", message="refused")
    cluster = replace(cluster, models=(declared(cache("m", "gpus"), state),))
    answer = why_pod(injected_pod(), cluster)
    assert {"NoNodeHasLabel", "LabelPending"} <= reasons(answer, Severity.STOP)
    assert "LabelPending: Failed: AuthDenied: refused" in render(answer)
    assert "larder why clustermodelcache/m" in render(answer)


def test_a_label_that_no_node_can_ever_get_is_reported() -> None:
    cluster = seen(declared(cluster_model("m", {"gpu": "no"})), nodes=(node("a", GPU),))
    assert "NoNodes" in reasons(why_pod(injected_pod(), cluster), Severity.STOP)


@pytest.mark.parametrize(
    ("where", "spec", "phrase"),
    [
        (node("a", LABELS, ready=False), {}, "is not Ready"),
        (node("a", LABELS, unschedulable=True), {}, "is cordoned"),
        (node("a", LABELS), {"node_selector": LABELS | {"zone": "x"}}, "lacks zone=x, which the pod selects"),
        (node("a", LABELS, taints=[Taint(key="t", effect="NoSchedule")]), {}, "has the taint t:NoSchedule"),
        (node("a", LABELS, taints=[Taint(key="t", value="v", effect="NoExecute")]),
         {"tolerations": [Toleration(key="t", value="w")]}, "has the taint t:NoExecute"),
        (node("a", LABELS),
         {"affinity": Affinity(node_affinity={"requiredDuringSchedulingIgnoredDuringExecution": {
             "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}})},
         "does not match the pod's node affinity"),
    ],
)  # fmt: skip
def test_an_obstacle_on_the_only_node_with_the_model_is_reported(
    where: ObservedNode, spec: dict[str, Any], phrase: str
) -> None:
    answer = why_pod(injected_pod(**spec), seen(nodes=(where,)))
    assert "DoesNotFit" in reasons(answer, Severity.STOP)
    assert phrase in render(answer)


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(operator="Exists"),
        Toleration(key="t", operator="Exists"),
        Toleration(key="t", value="v"),
        Toleration(key="t", value="v", effect="NoSchedule"),
    ],
)
def test_a_tolerated_taint_does_not_exclude_a_node(toleration: Toleration) -> None:
    where = node("a", LABELS, taints=[Taint(key="t", value="v", effect="NoSchedule")])
    answer = why_pod(injected_pod(tolerations=[toleration]), seen(nodes=(where,)))
    assert "Fits" in reasons(answer, Severity.FACT)


def test_a_removed_selector_is_reported() -> None:
    answer = why_pod(injected_pod(node_selector={ready_label("m"): "true"}), seen())
    assert "SelectorRemoved" in reasons(answer, Severity.STOP)


def test_a_pod_with_an_undeclared_model_or_an_older_revision_is_reported() -> None:
    assert "NoObject" in reasons(why_pod(injected_pod(), seen(declared(cache("other", "gpus")))))
    newer = declared(cache("m", "gpus", revision="r2"))
    assert "OlderRevision" in reasons(why_pod(injected_pod(), seen(newer)), Severity.FACT)


def test_a_user_who_may_not_list_nodes_sees_what_the_model_reports_about_them() -> None:
    hidden = {what: Refused("403 Forbidden", 403) for what in ("nodes", "modelnodes", "agents", "modelcachenodegroups")}
    reported = (("a", "Ready", "", ""), ("b", "Failed", "InsufficientStorage", "need 8"), ("c", "NotReady", "", ""))
    states = [NodeState(name=name, phase=phase, reason=reason, message=text) for name, phase, reason, text in reported]
    blind = replace(seen(declared(cache("m", "gpus"), *states), nodes=(), agents={}, groups=()), hidden=hidden)
    answer = of_model(blind)
    assert reasons(answer, Severity.STOP) == {"InsufficientStorage"}
    assert "! node/b: InsufficientStorage: Failed: need 8\n" in render(answer), "the reason is not repeated"
    assert {f.about for f in answer.findings if f.severity == Severity.WAIT} == {"node/c"}
    assert "NotShown" in reasons(answer, Severity.FACT)
    waiting = why_pod(injected_pod(), blind)
    assert not reasons(waiting, Severity.STOP), "nothing is reported about labels that were not read"
    unseen = replace(blind, models=(), hidden=hidden | {"clustermodelcaches": Refused("403", 403)})
    assert "NoObject" not in reasons(why_pod(injected_pod(), unseen))


def test_the_state_of_a_placed_pod_is_reported() -> None:
    running = injected_pod(node_name="a", status=ObservedPodStatus(phase="Running"))
    assert reasons(why_pod(running, seen())) == {"Model"}, "the model's own status is not known here"
    ended = injected_pod(node_name="a", status=ObservedPodStatus(phase="Failed", reason="NodeAffinity"))
    assert "NodeAffinity" in reasons(why_pod(ended, seen()), Severity.STOP)
    lost = seen(nodes=(node("a", GPU | LABELS, ready=False),))
    assert "NotReady" in reasons(why_pod(injected_pod(node_name="a"), lost), Severity.STOP)


def test_groups_and_nodes_that_do_not_exist_and_groups_without_nodes_are_reported() -> None:
    cluster = seen(groups=(group("gpus", {"gpu": "no"}),))
    assert reasons(why_group("gpus", cluster), Severity.STOP) == {"NoNodes"}
    assert reasons(why_group("nobody", cluster), Severity.STOP) == {"NotFound"}
    assert reasons(why_node("nobody", cluster), Severity.STOP) == {"NotFound"}


@given(
    phase=st.sampled_from([*Phase, "Later"]),
    reason=st.sampled_from(["", *REMEDIES]),
    granted=st.booleans(),
    state=st.sampled_from([*EntryState]),
)
def test_every_report_of_an_agent_leads_to_a_finding(*, phase: str, reason: str, granted: bool, state: str) -> None:
    found = with_entry(node_with_model("a", phase, reason, "words"), granted=granted, state=state)
    for answer in (of_model(at_a(found)), why_node("a", at_a(found)), why_pod(injected_pod(), at_a(found))):
        assert answer.findings
        if reason and state == EntryState.PRESENT:
            assert answer.title.startswith("pod") or reason in reasons(answer)


def test_every_reason_of_sources_and_nodes_has_a_remedy() -> None:
    kinds = [k for k in vars(shared.errors).values() if isinstance(k, type) and issubclass(k, LarderError)]
    assert {k.__name__ for k in kinds if not k.__subclasses__()} <= REMEDIES.keys()
    assert set(TRANSIENT) <= REMEDIES.keys()


def test_the_leader_and_its_silence_are_read_from_the_lease() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)

    def lease(second: int) -> bytes:
        spec = {"holderIdentity": "c", "leaseDurationSeconds": 15, "renewTime": f"2026-01-01T00:00:{second:02}.000000Z"}
        return msgspec.json.encode({"metadata": {}, "spec": spec})

    assert leader_of(lease(45), now) == LeaseHolder("c", expired=False)
    assert leader_of(lease(15), now) == LeaseHolder("c", expired=True)
    assert leader_of(b'{"metadata": {}, "spec": {}}', now) == LeaseHolder("", expired=True)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("cmc/x", Subject("ClusterModelCache", "", "x")),
        ("clusterbasemodel/x", Subject("ClusterBaseModel", "", "x")),
        ("bm/x", Subject("BaseModel", "team", "x")),
        ("bm/other/x", Subject("BaseModel", "other", "x")),
        ("basemodels.ome.io/x", Subject("BaseModel", "team", "x")),
        ("Pod/other/x", Subject("Pod", "other", "x")),
        ("po/x", Subject("Pod", "team", "x")),
        ("deploy/x", Subject("Deployment", "team", "x")),
        ("deployments.apps/x", Subject("Deployment", "team", "x")),
        ("rs/other/x", Subject("ReplicaSet", "other", "x")),
        ("sts/x", Subject("StatefulSet", "team", "x")),
        ("job/x", Subject("Job", "team", "x")),
        ("node/x", Subject("Node", "", "x")),
        ("modelnode/x", Subject("Node", "", "x")),
        ("mcng/x", Subject("ModelCacheNodeGroup", "", "x")),
        ("jobs.batch/x", Subject("Job", "team", "x")),
        ("jobs.batch.volcano.sh/x", Subject("jobs", "team", "x", "batch.volcano.sh", served=True)),
        ("isvc/x", Subject("inferenceservice", "team", "x", served=True)),
        ("isvc.ome.io/other/x", Subject("inferenceservice", "other", "x", "ome.io", served=True)),
        ("LLMISVC/x", Subject("llminferenceservice", "team", "x", served=True)),
        ("rayclusters.ray.io/x", Subject("rayclusters", "team", "x", "ray.io", served=True)),
    ],
)
def test_subjects_are_parsed(text: str, subject: Subject) -> None:
    assert parse_subject(text).within("team") == subject


@pytest.mark.parametrize("text", ["x", "/x", "isvc/", "cmc/", "cmc/a/b", "pod/a/b/c", "pod//x", ""])
def test_an_invalid_subject_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ValueError, match="write "):
        parse_subject(text)


@pytest.mark.parametrize("revision", ["", "r1"])
def test_a_source_that_is_not_allowed_is_reported_once_with_its_remedy(revision: str) -> None:
    says = [reported("SourceNotAllowed", "hf://org/m@main is not among", kind="Ready")]
    says.append(
        reported("Resolved", status="True")
        if revision
        else reported("SourceNotAllowed", "hf://org/m@main is not among")
    )
    answer = of_model(seen(declared(cache("m", "gpus", revision=revision), says=says)))
    (found,) = [f for f in answer.findings if f.reason == "SourceNotAllowed"]
    assert found.severity == Severity.STOP
    assert "allowedSources" in found.remedy

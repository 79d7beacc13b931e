"""Whether a volume is the pod's own or was added by admission from a template."""

import copy
import json

import pytest

from controller.admission.pods.replica_claims import give_claims
from controller.claimtemplates.templates import parse_templates
from controller.replica_claims.decide import ReportWait, decide
from controller.replica_claims.gate import GIVEN_ANNOTATION, mounted_templates
from controller.replica_claims.keys import ReplicaPodKey
from controller.replica_claims.view import ReplicaClaim, ReplicaPodView
from controller.replica_claims.workload_kinds import WorkloadKind, WorkloadKinds
from shared.api.core import Pod
from shared.json_object import Json
from tests.builders.cluster import meta
from tests.builders.replica_claims import pod_template, template

KINDS = WorkloadKinds((WorkloadKind("apps/v1", "StatefulSet", "statefulsets"),))
TEMPLATES = parse_templates([template("data"), template("own")], "here")
MOUNTED = {"data-db-0", "own-db-0"}


def pod_of_a_stateful_set(**annotations: str) -> Json:
    """Return a pod with a claim of its StatefulSet that has the name which a template would give."""
    pod = pod_template([template("data"), template("own")], "data", "own")
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    pod["metadata"] |= {"name": "db-0", "ownerReferences": [reference]}
    pod["metadata"]["annotations"] |= annotations
    pod["spec"]["volumes"] = [{"name": "own", "persistentVolumeClaim": {"claimName": "own-db-0"}}]
    return pod


def test_a_second_pass_does_not_take_over_a_pods_own_claim() -> None:
    pod = pod_of_a_stateful_set()
    give_claims(pod, KINDS)
    assert pod["metadata"]["annotations"][GIVEN_ANNOTATION] == "data"
    again = copy.deepcopy(pod)
    give_claims(again, KINDS)
    assert again == pod


def test_admission_replaces_a_record_that_someone_else_wrote() -> None:
    pod = pod_of_a_stateful_set(**{GIVEN_ANNOTATION: "x" * 100_000})
    give_claims(pod, KINDS)
    assert pod["metadata"]["annotations"][GIVEN_ANNOTATION] == "data"
    pod = pod_of_a_stateful_set(**{GIVEN_ANNOTATION: "data"})
    pod["metadata"]["annotations"]["larder.dev/volume-claim-templates"] = json.dumps([template("own")])
    give_claims(pod, KINDS)
    assert GIVEN_ANNOTATION not in pod["metadata"]["annotations"]
    assert "schedulingGates" not in pod["spec"]


@pytest.mark.parametrize(
    ("record", "mounted", "given"),
    [
        ("data", MOUNTED, ["data"]),
        ("data,own", {"data-db-0"}, ["data"]),  # a pod cannot be made to wait for a claim that it does not mount
        ("theirs", MOUNTED | {"theirs-db-0"}, []),  # or for a claim without a template
        ("", MOUNTED, []),
        (",,," * 50_000, MOUNTED, []),
        (None, MOUNTED, ["data", "own"]),
    ],
    ids=["one", "one that is not mounted", "one without a template", "empty", "long", "none"],
)
def test_the_record_can_only_exclude_templates_from_a_pod(
    record: str | None, mounted: set[str], given: list[str]
) -> None:
    annotations = {} if record is None else {GIVEN_ANNOTATION: record}
    assert [t.name for t in mounted_templates(TEMPLATES, "db-0", mounted, annotations)] == given


def test_the_event_names_missing_claims_of_a_pod() -> None:
    pod = Pod(metadata=meta("train-0", namespace="team"))
    claims = tuple(ReplicaClaim(f"{name}-train-0", {}) for name in "abcde")
    actions = decide(ReplicaPodView(ReplicaPodKey("team", "train-0"), pod, gated=True, claims=claims))
    (report,) = (action for action in actions if isinstance(action, ReportWait))
    assert "pod train-0, for example, lacks a-train-0, b-train-0, c-train-0 and 2 more" in report.message

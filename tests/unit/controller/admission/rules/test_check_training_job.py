"""What admission reports about a TrainingJob that the schema accepts."""

from typing import Any

import pytest

from controller.admission.errors import InvalidTemplate
from controller.admission.rules.check_training_job import check_training_job
from tests.builders.training_jobs import TEMPLATE


def job(name: str = "tj", role: str = "Worker", **fields: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {"template": {"spec": {"containers": [container]}}, "volumeClaimTemplates": [TEMPLATE]}
    return {"metadata": {"name": name}, "spec": {"replicaSpecs": {role: spec | fields}}}


def test_a_valid_job_has_no_warnings() -> None:
    assert check_training_job(job(replicas=5000)) == []


@pytest.mark.parametrize(
    ("letters", "replicas", "fails"),
    [(54, 10, 0), (54, 11, 1), (54, 5000, 4990), (53, 100, 0), (55, 1, 1), (55, 7, 7), (250, 3, 3), (55, 0, 0)],
)
def test_the_warning_counts_the_pods_whose_names_are_too_long(letters: int, replicas: int, fails: int) -> None:
    """`-worker-` and one digit are 9 characters of 63."""
    found = check_training_job(job("x" * letters, replicas=replicas))
    assert [warning.partition(" pods")[0] for warning in found] == ([f"{fails} of {replicas}"] if fails else [])


def test_all_invalid_templates_are_named_in_one_message() -> None:
    written = job(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"volumeName": "theirs"}}])
    written["spec"]["replicaSpecs"]["Master"] = job(volumeClaimTemplates=[TEMPLATE, TEMPLATE])["spec"]["replicaSpecs"][
        "Worker"
    ]
    with pytest.raises(InvalidTemplate) as refused:
        check_training_job(written)
    assert "spec.replicaSpecs.Worker.volumeClaimTemplates[0].spec.volumeName: may not be set" in str(refused.value)
    assert "spec.replicaSpecs.Master.volumeClaimTemplates: two templates are named 'data'" in str(refused.value)


def test_a_mount_without_a_volume_is_reported_with_the_existing_volumes() -> None:
    """The example of the proposal mounts `my-data`, and its template is named `data`."""
    containers = [{"name": "main", "image": "i", "volumeMounts": [{"name": "my-data"}]}]
    (warning,) = check_training_job(job(template={"spec": {"containers": containers, "volumes": [{"name": "own"}]}}))
    assert "mounts my-data" in warning
    assert "(they have: data, own)" in warning


@pytest.mark.parametrize("volumes", [None, "x", 3, [3], {"a": 1}])
def test_a_malformed_pod_template_causes_no_error(volumes: object) -> None:
    containers = [{"name": "main", "image": "i", "volumeMounts": [{"name": "data"}]}, "x", {"volumeMounts": 7}]
    assert check_training_job(job(template={"spec": {"containers": containers, "volumes": volumes}})) == []

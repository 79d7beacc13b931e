"""The strictest namespace accepts the Job, and nobody can misuse it."""

from typing import Any

import pytest

from controller.claims.job import JobSettings, job_manifest, model_key, model_text
from controller.claims.read_request import ClaimReadRequest
from controller.jobs.observed_jobs import ClaimPod
from controller.placement.claim_place import ClaimPath
from controller.state.keys import ModelKey
from tests.builders.claims import user

KEY = ModelKey("BaseModel", "team", "llama")
REQUEST = ClaimReadRequest("identity", 1, "larder-extract-1")


def manifest(sub_path: str = "models/llama", holder: ClaimPod | None = None, **settings: Any) -> dict[str, Any]:
    return job_manifest(
        KEY, "u1", ClaimPath("team", "data", sub_path), REQUEST, holder, JobSettings("image:1", **settings)
    )


def pod_spec(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def test_the_job_can_only_read_the_claim() -> None:
    spec = pod_spec(manifest())
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert spec["volumes"] == [{"name": "claim", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}]
    assert container["volumeMounts"] == [{"name": "claim", "mountPath": "/claim", "readOnly": True}]
    assert "subPath" not in container["volumeMounts"][0]  # kubelet would create a missing directory on the user's claim
    assert "fsGroup" not in spec["securityContext"]  # kubelet would change the group of the user's files
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_job_has_a_deadline_a_retry_limit_and_a_ttl() -> None:
    spec = manifest()["spec"]
    assert spec["activeDeadlineSeconds"]
    assert spec["ttlSecondsAfterFinished"]
    assert spec["backoffLimit"]


def test_the_image_is_pulled_with_the_secrets_of_the_chart() -> None:
    assert "imagePullSecrets" not in pod_spec(manifest())
    assert pod_spec(manifest(pull_secrets=[{"name": "mirror"}]))["imagePullSecrets"] == [{"name": "mirror"}]


def test_the_model_owns_the_job() -> None:
    (owner,) = manifest()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["blockOwnerDeletion"]) == (
        "BaseModel",
        "llama",
        "u1",
        False,
    )


def test_the_job_runs_on_the_node_that_has_the_volume() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    spec = pod_spec(manifest(holder=user(node="n7", tolerations=[toleration]), tolerations=[{"key": "mine"}]))
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    assert spec["tolerations"] == [{"key": "mine"}, toleration]
    assert "affinity" not in pod_spec(manifest())


@pytest.mark.parametrize(("path", "argument"), [("a b/c", "--path=a b/c"), ("$(HOME)/x$", "--path=$$(HOME)/x$$")])
def test_a_sub_path_is_one_argument_and_no_variable(path: str, argument: str) -> None:
    assert pod_spec(manifest(path))["containers"][0]["args"][1] == argument


def test_its_pods_name_their_model() -> None:
    cluster = ModelKey("ClusterBaseModel", "", "m")
    assert [model_key(model_text(k)) for k in (KEY, cluster)] == [KEY, cluster]
    assert [model_key(text) for text in ("", "a/b/c", "BaseModel/x", "BaseModel/a/b/c")] == [None] * 4

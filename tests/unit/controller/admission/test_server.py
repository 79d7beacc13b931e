"""The endpoints as the API server sees them."""

import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from controller.admission.callers import Callers
from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.injectable_model import InjectableModel
from controller.admission.server import admission_app, path_with
from controller.admission.settings import AdmissionSettings
from rig.larder.programs import ADMISSION_KEY
from rig.pods import base_model_pod, kserve_pod, plain_pod
from shared.errors import Unreachable
from tests.builders.reviews import admission_review


async def _post(catalog: MemoryCatalog, path: str, body: object) -> httpx.Response:
    async with _client(catalog) as client:
        content = body if isinstance(body, bytes) else json.dumps(body)
        return await client.post(path_with(ADMISSION_KEY, path), content=content)


def _client(catalog: MemoryCatalog) -> httpx.AsyncClient:
    app = admission_app(catalog, AdmissionSettings(), Callers(lambda: (ADMISSION_KEY,)))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="https://larder")


async def _answer(catalog: MemoryCatalog, path: str, body: object) -> dict[str, Any]:
    response = await _post(catalog, path, body)
    assert response.status_code == 200
    review = response.json()
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    answer: dict[str, Any] = review["response"]
    assert answer["uid"] == "u-1"
    return answer


async def test_a_pod_is_answered_with_a_patch(catalog: MemoryCatalog) -> None:
    review = admission_review("Pod", namespace="default", object=base_model_pod("p", "llama"))
    answer = await _answer(catalog, "/mutate-pods", review)
    assert answer["allowed"] is True
    assert answer["patchType"] == "JSONPatch"
    paths = [op["path"] for op in json.loads(base64.b64decode(answer["patch"]))]
    assert "/spec/nodeSelector" in paths


async def test_a_refusal_is_short_however_much_the_pod_has_to_list(
    catalog: MemoryCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = base_model_pod("p", "llama")
    pod["metadata"]["annotations"]["larder.dev/model-container"] = "none"
    pod["spec"]["containers"] = [{"name": f"container-{number}", "image": "i"} for number in range(5000)]
    answer = await _answer(catalog, "/mutate-pods", admission_review("Pod", namespace="default", object=pod))
    assert answer["status"]["message"].startswith("annotation larder.dev/model-container names 'none'")
    assert len(answer["status"]["message"]) == 4000
    assert len(capsys.readouterr().out) < 10_000


async def test_the_namespace_of_the_request_decides_which_model_is_meant(catalog: MemoryCatalog) -> None:
    answer = await _answer(
        catalog, "/mutate-pods", admission_review("Pod", namespace="team", object=base_model_pod("p", "llama"))
    )
    assert "team_llama" in base64.b64decode(answer["patch"]).decode()


@pytest.mark.parametrize(
    "review",
    [
        admission_review("Pod", object=plain_pod("p")),
        admission_review("Pod", "UPDATE", object=base_model_pod("p", "none")),
        admission_review("Pod", subResource="binding", object=base_model_pod("p", "none")),
        admission_review("Deployment", object={}),
    ],
)
async def test_irrelevant_reviews_pass_unchanged(review: dict[str, Any], catalog: MemoryCatalog) -> None:
    assert await _answer(catalog, "/mutate-pods", review) == {"uid": "u-1", "allowed": True}
    assert catalog.lookups == 0


@pytest.mark.parametrize(("uri", "reads"), [("s3://bucket/m", 0), ("s3://bucket/m/x", 1), ("s3://bucket/m/no", 1)])
async def test_the_file_list_is_read_only_for_a_part_of_a_cache(uri: str, reads: int, catalog: MemoryCatalog) -> None:
    catalog.paths, catalog.unread = {}, {"short": {"x/y.bin"}}
    review = admission_review("Pod", namespace="default", object=kserve_pod("p", uri))
    answer = await _answer(catalog, "/mutate-pods", review)
    paths = [op["path"] for op in json.loads(base64.b64decode(answer["patch"]))]
    assert catalog.reads == reads
    assert ("/spec/initContainers" in paths) is not uri.endswith("/no")
    assert ("has no file or directory 'no'" in str(answer.get("warnings"))) is uri.endswith("/no")


async def test_the_file_lists_of_all_caches_that_may_have_a_part_are_read(catalog: MemoryCatalog) -> None:
    catalog.paths, catalog.unread = {}, {"short": {"x/y.bin"}, "own": {"other.bin"}}
    own = CatalogModel("ModelCache", "team", "own", "own", "s3://bucket/m/x", "r1", claim="own")
    catalog.own_caches.append(own)
    review = admission_review("Pod", namespace="team", object=kserve_pod("p", "s3://bucket/m/x/y.bin"))
    answer = await _answer(catalog, "/mutate-pods", review)
    assert "warnings" not in answer
    assert "/spec/initContainers" in [op["path"] for op in json.loads(base64.b64decode(answer["patch"]))]
    assert catalog.reads == 2


async def test_warnings_start_with_the_name_of_larder(catalog: MemoryCatalog) -> None:
    review = admission_review("Pod", namespace="default", object=kserve_pod("p", "gs://x/y"))
    (warning,) = (await _answer(catalog, "/mutate-pods", review))["warnings"]
    assert warning.startswith("larder: model not cached: ")


async def test_a_refusal_has_a_reason_and_a_message(catalog: MemoryCatalog) -> None:
    review = admission_review("Pod", namespace="default", object=base_model_pod("p", "none"))
    answer = await _answer(catalog, "/mutate-pods", review)
    assert answer["allowed"] is False
    assert answer["status"]["reason"] == "ModelNotFound"
    assert answer["status"]["code"] == 403
    assert "no BaseModel 'none' in namespace default" in answer["status"]["message"]


async def test_the_models_that_a_pod_names_are_looked_up_in_its_namespace(catalog: MemoryCatalog) -> None:
    catalog.injectable = {("team", "llama"): InjectableModel("llama", "Ready", "model-llama")}
    pod = plain_pod("p", {"models.example.com/inject": "llama"})
    answer = await _answer(catalog, "/mutate", admission_review("Pod", namespace="team", object=pod))
    paths = [op["path"] for op in json.loads(base64.b64decode(answer["patch"]))]
    assert set(paths) >= {"/spec/volumes", "/metadata/labels"}
    other = await _answer(catalog, "/mutate", admission_review("Pod", namespace="other", object=pod))
    assert other["status"]["message"].startswith('model "llama" not found: ')
    updated = admission_review("Pod", "UPDATE", namespace="team", object=pod)
    assert await _answer(catalog, "/mutate", updated) == {"uid": "u-1", "allowed": True}


async def test_a_pod_that_cannot_be_decoded_is_an_error_400(catalog: MemoryCatalog) -> None:
    wrong = admission_review("Pod", namespace="team", object={"metadata": {"annotations": 1}, "spec": {}})
    assert (await _post(catalog, "/mutate", wrong)).status_code == 400
    assert (await _post(catalog, "/mutate", b"{")).status_code == 400


async def test_an_ephemeral_container_is_patched(catalog: MemoryCatalog) -> None:
    pod = plain_pod("p")
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/var/lib/larder/models/x/y"}}]
    pod["spec"]["ephemeralContainers"] = [{"name": "d", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
    review = admission_review("Pod", "UPDATE", subResource="ephemeralcontainers", object=pod, oldObject=plain_pod("p"))
    answer = await _answer(catalog, "/mutate-pods", review)
    assert json.loads(base64.b64decode(answer["patch"])) == [
        {"op": "add", "path": "/spec/ephemeralContainers/0/volumeMounts/0/readOnly", "value": True}
    ]


async def test_an_invalid_object_is_refused(catalog: MemoryCatalog) -> None:
    cache = {"metadata": {"name": "c"}, "spec": {"storageUri": "s3://bucket/m", "nodeGroup": "g"}}
    answer = await _answer(catalog, "/validate", admission_review("ClusterModelCache", object=cache))
    assert answer["allowed"] is False
    assert answer["status"]["reason"] == "UnknownGroup"


async def test_deleting_a_model_in_use_is_refused_with_its_users(catalog: MemoryCatalog) -> None:
    catalog.users = {"team_llama": ["team/pod-1"]}
    old = {"metadata": {"name": "llama", "namespace": "team"}, "spec": {}}
    review = admission_review("BaseModel", "DELETE", namespace="team", name="llama", oldObject=old)
    answer = await _answer(catalog, "/validate", review)
    assert answer["status"]["reason"] == "InUse"
    assert answer["status"]["message"].startswith("BaseModel team/llama is used by 1 pod: team/pod-1")
    going = review["request"] | {"oldObject": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}}
    assert (await _answer(catalog, "/validate", review | {"request": going}))["allowed"] is True
    other = admission_review("ClusterBaseModel", "DELETE", name="llama", oldObject=old)
    assert (await _answer(catalog, "/validate", other))["allowed"] is True


class BrokenCatalog(MemoryCatalog):
    """A catalog whose live read fails with an expected or an unexpected error."""

    error: Exception = Unreachable("GET /api/v1/pods: connection reset")

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        del kind, namespace, name
        raise self.error


@pytest.mark.parametrize(
    ("error", "phrase"),
    [
        (Unreachable("GET /api/v1/pods: reset"), "GET /api/v1/pods: reset; this ClusterBaseModel was not reviewed"),
        (KeyError("x"), "KeyError"),
    ],
)
async def test_an_internal_failure_is_answered_without_a_stack_trace(error: Exception, phrase: str) -> None:
    broken = BrokenCatalog()
    broken.error = error
    answer = await _answer(broken, "/validate", admission_review("ClusterBaseModel", "DELETE", name="x", oldObject={}))
    assert answer["allowed"] is False
    assert answer["status"]["code"] == 500
    assert answer["status"]["reason"] == "AdmissionFailure"
    assert phrase in answer["status"]["message"]
    assert "Traceback" not in answer["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"request": {"uid": "u", "operation": "CREATE", "object": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}}",
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        {
            "apiVersion": "admission.k8s.io/v1beta1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "C"},
        },
        admission_review("Pod", object=[]),
        admission_review("Pod") | {"kind": "Pod"},
    ],
)
@pytest.mark.parametrize("path", ["/mutate-pods", "/validate"])
async def test_a_malformed_body_is_a_bad_request(path: str, body: object, catalog: MemoryCatalog) -> None:
    response = await _post(catalog, path, body)
    assert response.status_code == 400
    assert response.text


FOREIGN = {"ClusterBaseModel", "ModelCacheNodeGroup", "ClusterModelCache"}
ASKS = {"annotations": {"larder.dev/managed": "true"}}
WRONG = {"storage": {"storageUri": "ftp://nowhere"}}


@pytest.mark.parametrize(("metadata", "allowed"), [({}, True), (ASKS, False)])
async def test_objects_of_a_foreign_kind_are_checked_only_if_they_opt_in(
    catalog: MemoryCatalog, metadata: dict[str, Any], *, allowed: bool
) -> None:
    catalog.foreign |= FOREIGN
    catalog.users["m"] = ["ns/pod"]
    written = {"metadata": {"name": "m", **metadata}, "spec": WRONG}
    created = await _answer(catalog, "/validate", admission_review("ClusterBaseModel", name="m", object=written))
    deleted = await _answer(
        catalog, "/validate", admission_review("ClusterBaseModel", "DELETE", name="m", oldObject=written)
    )
    assert (created["allowed"], deleted["allowed"]) == (allowed, allowed)


async def test_a_pod_with_a_model_of_another_product_is_admitted_unchanged(catalog: MemoryCatalog) -> None:
    catalog.base_models.append(CatalogModel("ClusterBaseModel", "", "theirs", id="", uri="", managed=False))
    review = admission_review("Pod", namespace="default", object=base_model_pod("p", "theirs"))
    answer = await _answer(catalog, "/mutate-pods", review)
    assert answer == {"uid": "u-1", "allowed": True}


async def test_a_source_that_is_not_allowed_is_refused_with_the_allowed_ones(catalog: MemoryCatalog) -> None:
    model = {"metadata": {"name": "m", "namespace": "team"}, "spec": {"storage": {"storageUri": "https://h.test/f"}}}
    answer = await _answer(catalog, "/validate", admission_review("BaseModel", namespace="team", object=model))
    assert (answer["allowed"], answer["status"]["reason"]) == (False, "SourceNotAllowed")
    assert "hf://" in answer["status"]["message"]
    assert (await _answer(catalog, "/validate", admission_review("ClusterBaseModel", object=model)))["allowed"] is True


async def test_a_pod_of_another_namespace_does_not_keep_a_namespaced_model(catalog: MemoryCatalog) -> None:
    catalog.users = {"team_llama": ["evil/pod"], "llama": ["evil/pod"]}
    old = {"metadata": {"name": "llama"}, "spec": {}}
    review = admission_review("BaseModel", "DELETE", namespace="team", name="llama", oldObject=old)
    assert (await _answer(catalog, "/validate", review))["allowed"] is True
    review = admission_review("ClusterBaseModel", "DELETE", name="llama", oldObject=old)
    assert (await _answer(catalog, "/validate", review))["status"]["reason"] == "InUse"


@pytest.mark.parametrize("path", ["/mutate-pods", "/validate"])
async def test_an_endless_body_is_refused_after_three_mebibytes(path: str, catalog: MemoryCatalog) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b" " * 2**20

    async with _client(catalog) as client:
        answer = await client.post(path_with(ADMISSION_KEY, path), content=endless())
    assert (answer.status_code, "3145728" in answer.text) == (413, True)
    assert sent == 4


async def test_a_review_of_the_largest_size_is_answered(catalog: MemoryCatalog) -> None:
    large = base_model_pod("p", "llama")
    large["metadata"]["annotations"]["x"] = "y" * (3 * 2**20 - 2**10)
    review = admission_review("Pod", "UPDATE", object=large)
    assert (await _answer(catalog, "/mutate-pods", review))["allowed"] is True


@pytest.mark.parametrize("values", ["[],", "{},", "0,"])
async def test_a_review_with_too_many_values_is_refused_before_decoding(values: str, catalog: MemoryCatalog) -> None:
    """Each value takes thirty times as much memory as its text."""
    body = json.dumps(admission_review("Pod", object=plain_pod("p"))).encode()
    many = f'"volumes": [{values * 200_000}0], "containers"'.encode()
    response = await _post(catalog, "/mutate-pods", body.replace(b'"containers"', many, 1))
    assert (response.status_code, "150000 values" in response.text) == (400, True)

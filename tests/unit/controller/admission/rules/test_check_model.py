"""The checks when a Model is written or deleted."""

from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import AdmissionRefused, InUse
from controller.admission.review import AdmissionRequest, GroupVersionKind
from controller.admission.rules.check_model import check_model, model_warnings
from controller.admission.rules.models import MODEL_RULE
from controller.admission.settings import AdmissionSettings
from controller.placement.allowed_sources import EVERY_SOURCE, PUBLIC_SOURCES
from shared.errors import InvalidURI, LarderError
from shared.json_object import Json

HUB = {"huggingFace": {"repoId": "meta-llama/Llama-3.1-8B-Instruct", "revision": "main"}}


def model(source: Json | None = None, name: str = "llama-3-8b", storage: Json | None = None, **spec: Any) -> Json:
    written = {"storageClass": "longhorn", "size": "20Gi"} | (storage or {})
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"source": source or HUB, "storage": written} | spec,
    }


def problem(found: Json, kind: type[LarderError] = AdmissionRefused, allowed: Any = EVERY_SOURCE) -> str:
    with pytest.raises(kind) as caught:
        check_model(found, allowed)
    return str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        HUB,
        {"s3": {"bucket": "weights", "key": "llama/", "endpoint": "https://minio.storage:9000", "region": "us-east-1"}},
        {"url": {"url": "https://example.com/model.gguf"}},
        {"url": {"url": "https://files.team:8080/model.gguf"}},
        {"gitlfs": {"repoUrl": "https://example.com/org/model.git", "revision": "v1"}},
        {"oci": {"ref": "registry.example.com/org/model:v1"}},
    ],
)
def test_every_source_of_the_specification_is_accepted(source: Json) -> None:
    check_model(model(source, credentialsSecret="hf-credentials", nodeSelector={"disk": "fast"}), EVERY_SOURCE)


def test_the_example_of_the_specification_is_accepted_with_the_default_sources() -> None:
    check_model(model(), PUBLIC_SOURCES)


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ({"url": {"url": "https://user:word@example.com/m"}}, "has a user or password"),
        ({"url": {"url": "https:///m"}}, "is not a URL of a server"),
        ({"url": {"url": "https://example.com:port/m"}}, "is not a URL: "),
        ({"url": {"url": "https://example.com/m\n"}}, "is not a URL of a server"),
        ({"s3": {"bucket": "b", "key": "k", "endpoint": "minio:9000"}}, "spec.source.s3.endpoint: "),
        ({"s3": {"bucket": "b", "key": "../k"}}, "spec.source.s3: "),
        ({"url": {"url": "http://example.com/m"}}, "is not encrypted"),
        ({"gitlfs": {"repoUrl": "https://token@example.com/m.git"}}, "spec.source.gitlfs.repoUrl: "),
        ({"oci": {"ref": "no registry"}}, "spec.source.oci: "),
        ({"huggingFace": {"repoId": "org/..", "revision": "main"}}, "spec.source.huggingFace: "),
    ],
)
def test_an_invalid_or_unencrypted_source_is_refused(source: Json, phrase: str) -> None:
    message = problem(model(source), InvalidURI)
    assert phrase in message
    assert "word@" not in message


@pytest.mark.parametrize(
    "source", [{"url": {"url": "https://internal.example.org/m"}}, {"gitlfs": {"repoUrl": "https://git.example.org/m"}}]
)
def test_a_host_that_namespaces_may_not_use_is_refused(source: Json) -> None:
    assert "allowedSources" in problem(model(source), allowed=PUBLIC_SOURCES)


@pytest.mark.parametrize(
    ("found", "phrase"),
    [
        (model(name="x" * 49), "metadata.name has 49 characters; the Job model-download-<name> can have 63"),
        (model(storage={"size": "20K"}), "Kubernetes has the suffixes k and Ki, but not K"),
        (model(storage={"size": "0Gi"}), "0Gi is too small"),
        (model(storage={"size": "9999999E"}), "9999999E is too large"),
        (model(storage={"storageClass": "Fast SSD"}), "'Fast SSD' cannot be the name of a StorageClass"),
        (model(credentialsSecret="../x"), "spec.credentialsSecret: '../x' cannot be the name of a Secret"),
        (model(nodeSelector={"a b": "c"}), "spec.nodeSelector: 'a b' is not a label key"),
    ],
)
def test_an_invalid_name_or_size_is_refused(found: Json, phrase: str) -> None:
    assert phrase in problem(found)


def test_all_problems_are_in_one_message() -> None:
    message = problem(model(name="x" * 49, storage={"size": "0Gi"}))
    assert "metadata.name" in message
    assert "spec.storage.size" in message


def test_a_name_of_48_characters_is_accepted() -> None:
    check_model(model(name="x" * 48), EVERY_SOURCE)


@pytest.mark.parametrize(
    ("found", "phrase"),
    [
        (model(storage={"accessModes": ["ReadOnlyMany"]}), "the download cannot write"),
        (model(storage={"accessModes": ["ReadWriteOncePod"]}), "only one pod at a time"),
    ],
)
def test_fields_that_may_be_a_mistake_are_warned_about(found: Json, phrase: str) -> None:
    [warning] = model_warnings(found, known_class=True)
    assert phrase in warning


async def test_a_storage_class_that_does_not_exist_is_a_warning() -> None:
    catalog = MemoryCatalog()
    [warning] = await MODEL_RULE.check_write(model(), catalog, AdmissionSettings())
    assert "there is no StorageClass longhorn" in warning
    catalog.storage_classes.add("longhorn")
    assert await MODEL_RULE.check_write(model(), catalog, AdmissionSettings()) == []


async def test_a_model_that_pods_mount_is_not_deleted() -> None:
    old = model() | {"status": {"pvcName": "model-llama-3-8b"}}
    kind = GroupVersionKind("models.example.com", "v1alpha1", "Model")
    review = AdmissionRequest("u", "DELETE", kind, name="llama-3-8b", namespace="team", old_object=old)
    await MODEL_RULE.check_delete(review, MemoryCatalog())
    used = MemoryCatalog(users={"team/model-llama-3-8b": ["team/vllm-0"]})
    with pytest.raises(InUse, match="Model team/llama-3-8b is used by 1 pod: team/vllm-0"):
        await MODEL_RULE.check_delete(review, used)

"""The claim and the Job of a Model, with the names and figures of its specification."""

from typing import Any

import pytest

import tests.builders.models_on_claims as build
from controller.downloads.job import DownloadJobSettings
from controller.modeloperator.decide import wanted_download
from controller.modeloperator.objects import claim_manifest, download_manifest
from controller.modeloperator.source import source_of

IMAGE = "registry.example.org/agent:1"
HUB = {"huggingFace": {"repoId": "org/llama", "revision": "v2"}}
SOURCES: list[tuple[dict[str, Any], str, list[str]]] = [
    (HUB, "hf://org/llama@v2", ["HF_TOKEN"]),
    (
        {"s3": {"bucket": "models", "key": "llama"}},
        "s3://models/llama",
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
    ),
    ({"url": {"url": "https://example.org/llama.gguf"}}, "https://example.org/llama.gguf", []),
    (
        {"gitlfs": {"repoUrl": "https://example.org/llama", "revision": "v2"}},
        "git+https://example.org/llama?ref=v2",
        ["password", "token", "username"],
    ),
    (
        {"oci": {"ref": "registry.example.org/llama:1"}},
        "oci://registry.example.org/llama:1",
        [".dockerconfigjson", "config.json"],
    ),
]
KINDS = [next(iter(source)) for source, _, _ in SOURCES]


def job(**spec: Any) -> dict[str, Any]:
    model = build.model(**spec)
    view = build.view(model, claim=build.claim())
    return download_manifest(model, wanted_download(view), source_of(model.spec), DownloadJobSettings(IMAGE))


def pod_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def test_the_claim_is_owned_by_the_model_and_follows_its_storage_spec() -> None:
    body = claim_manifest(build.model(storage={"storageClass": "gp3", "size": "5Gi", "accessModes": ["ReadWriteMany"]}))
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("model-llama", "team")
    (owner,) = body["metadata"]["ownerReferences"]
    wanted = {"apiVersion": "models.example.com/v1alpha1", "kind": "Model", "name": "llama", "uid": "u1"}
    assert wanted.items() <= owner.items()
    assert owner["controller"] is True
    assert body["spec"]["storageClassName"] == "gp3"
    assert body["spec"]["accessModes"] == ["ReadWriteMany"]
    assert body["spec"]["resources"] == {"requests": {"storage": "5Gi"}}


def test_the_job_matches_the_specification() -> None:
    body = job(nodeSelector={"disk": "fast"})
    assert body["metadata"]["name"] == "model-download-llama"
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Model", "u1", True)
    assert (body["spec"]["backoffLimit"], body["spec"]["ttlSecondsAfterFinished"]) == (3, 3600)
    spec = pod_of(body)
    (container,) = spec["containers"]
    assert (container["name"], container["image"]) == ("downloader", IMAGE)
    assert {"name": "model-storage", "mountPath": "/models"} in container["volumeMounts"]
    assert {"name": "model-storage", "persistentVolumeClaim": {"claimName": "model-llama"}} in spec["volumes"]
    asked = {kind: (found["cpu"], found["memory"]) for kind, found in container["resources"].items()}
    assert asked == {"requests": ("500m", "512Mi"), "limits": ("2", "2Gi")}
    assert spec["nodeSelector"]["disk"] == "fast"


@pytest.mark.parametrize(("source", "uri", "keys"), SOURCES, ids=KINDS)
def test_each_source_is_downloaded_to_the_root_of_the_claim(source: dict[str, Any], uri: str, keys: list[str]) -> None:
    spec = pod_of(job(source=source))
    (container,) = spec["containers"]
    assert container["args"][0] == "--to=/models"
    assert container["args"][-2:] == ["--", uri]
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert [item["key"] for secret in secrets for item in secret["items"]] == keys
    assert all((secret["secretName"], secret["optional"]) == ("hub", True) for secret in secrets)


@pytest.mark.parametrize("source", [source for source, _, _ in SOURCES], ids=KINDS)
def test_without_a_secret_none_is_mounted(source: dict[str, Any]) -> None:
    spec = pod_of(job(source=source, credentialsSecret=""))
    assert not [volume for volume in spec["volumes"] if "secret" in volume]
    assert not [argument for argument in spec["containers"][0]["args"] if argument.startswith("--credentials")]


def test_an_update_prefers_the_node_where_pods_mount_the_claim() -> None:
    model = build.model(build.served("earlier"))
    download = wanted_download(build.view(model, claim=build.claim(), node="gpu-1"))
    spec = pod_of(download_manifest(model, download, source_of(model.spec), DownloadJobSettings(IMAGE)))
    (term,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchFields"][0]["values"] == ["gpu-1"]
    assert "affinity" not in pod_of(job())

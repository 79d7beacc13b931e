"""Pods that name Models, created through the real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.admission.injectable_model import InjectableModel
from controller.inferenceservices.users import ServiceUsers
from controller.sources.manifests import Manifests
from controller.state.dra.claim_users import ResourceClaimUsers
from rig.admission import NAMESPACE, AdmissionSite
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.larder.webhooks import INJECTOR
from rig.pods import plain_pod
from rig.processes import wait_until
from shared.json_object import Json
from shared.kube.transport import connect
from tests.builders.cluster import fresh_cluster

INJECT = "models.example.com/inject"
APPS, BATCH = (f"/apis/{group}/v1/namespaces/{NAMESPACE}" for group in ("apps", "batch"))
MODELS = f"/apis/models.example.com/v1alpha1/namespaces/{NAMESPACE}/models"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LLAMA = InjectableModel(
    "llama-3-8b",
    "Ready",
    "model-llama-3-8b",
    version="3.1",
    source_type="huggingface",
    source={"REPO_ID": "meta-llama/Llama-3.1-8B-Instruct"},
)


@pytest.fixture(scope="module")
def models(site: AdmissionSite) -> Iterator[AdmissionSite]:
    models = [
        LLAMA,
        InjectableModel("pending", "Pending", ""),
        InjectableModel("llama-3.1", "Ready", "model-llama-3.1"),
    ]
    models += [InjectableModel(f"m{i}", "Ready", f"model-m{i}", source_type="url") for i in range(20)]
    site.catalog.injectable.update({(NAMESPACE, model.name): model for model in models})
    path = f"{site.pods}?dryRun=All"
    probe = plain_pod("probe", {INJECT: "none"})
    wait_until(lambda: site.refuses(path, probe), 60, "the injector")
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: site.api.answers(path), 60, "the namespace's account")
    yield site
    site.catalog.injectable.clear()


def template(inject: str = "llama-3-8b", **extra: Any) -> Json:
    spec = plain_pod("")["spec"] | extra
    return {"metadata": {"annotations": {INJECT: inject}, "labels": {"app": "x"}}, "spec": spec}


def pods_of(site: AdmissionSite, label: str) -> list[Json]:
    found: list[Json] = site.api.get(f"{site.pods}?labelSelector={label}")["items"]
    return found


def the_pod_of(site: AdmissionSite, label: str) -> Json:
    wait_until(lambda: bool(pods_of(site, label)), 60, f"a pod with {label}")
    return pods_of(site, label)[0]


def assert_injected(pod: Json) -> None:
    [container] = pod["spec"]["containers"]
    assert {
        "name": "model-llama-3-8b",
        "persistentVolumeClaim": {"claimName": "model-llama-3-8b", "readOnly": True},
    } in (pod["spec"]["volumes"])
    mounts = [m for m in container["volumeMounts"] if m["name"] == "model-llama-3-8b"]
    assert mounts == [{"name": "model-llama-3-8b", "mountPath": "/models/llama-3-8b", "readOnly": True}]
    assert [v["name"] for v in container["env"]] == [
        f"MODEL_LLAMA_3_8B_{end}" for end in ("NAME", "VERSION", "SOURCE_TYPE", "REPO_ID", "MOUNT_PATH")
    ]
    assert pod["metadata"]["labels"]["models.example.com/injected"] == "true"


def test_pods_of_deployments_stateful_sets_and_jobs_get_their_model(models: AdmissionSite) -> None:
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    made: list[tuple[str, str, Json]] = [
        (f"{APPS}/deployments", "d", selector | {"template": template()}),
        (f"{APPS}/statefulsets", "s", selector | {"serviceName": "s", "template": template()}),
        (f"{BATCH}/jobs", "j", {"template": template(restartPolicy="Never")}),
    ]
    for path, name, spec in made:
        spec["template"]["metadata"]["labels"] = {"app": name}
        if "selector" in spec:
            spec["selector"] = {"matchLabels": {"app": name}}
        models.api.create(path, {"metadata": {"name": name}, "spec": spec})
    try:
        for _, name, _ in made:
            assert_injected(the_pod_of(models, f"app={name}"))
    finally:
        for path, name, _ in made:
            models.api.delete(f"{path}/{name}?propagationPolicy=Background")


def test_a_deployment_reports_why_its_pods_are_refused(models: AdmissionSite) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template("pending")}
    models.api.create(f"{APPS}/deployments", {"metadata": {"name": "waits"}, "spec": spec})

    def messages() -> str:
        conditions = models.api.get(f"{APPS}/deployments/waits").get("status", {}).get("conditions", [])
        return " ".join(c.get("message", "") for c in conditions if c["type"] == "ReplicaFailure")

    try:
        wait_until(lambda: 'model "pending" is not ready (phase: Pending)' in messages(), 60, "the refusal")
        assert 'admission webhook "model-injector.models.example.com" denied the request: ' in messages()
    finally:
        models.api.delete(f"{APPS}/deployments/waits?propagationPolicy=Background")


def test_twenty_models_and_a_name_with_a_dot_are_accepted_by_the_api_server(models: AdmissionSite) -> None:
    names = ",".join(f"m{i}" for i in range(20))
    pod = models.create(plain_pod("twenty", {INJECT: names}))
    assert len([v for v in pod["spec"]["volumes"] if v["name"].startswith("model-m")]) == 20
    dotted = models.create(plain_pod("dotted", {INJECT: "llama-3.1"}))
    [volume] = [v for v in dotted["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert volume["persistentVolumeClaim"]["claimName"] == "model-llama-3.1"


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({INJECT: "none"}, 'model "none" not found: '),
        ({INJECT: "m1", "models.example.com/read-only": "maybe"}, 'models.example.com/read-only is "maybe"'),
        ({INJECT: "m1", "models.example.com/mount-path": "/etc"}, "models.example.com/mount-path: '/etc'"),
        ({INJECT: "m1", "models.example.com/container": "x"}, "models.example.com/container names 'x'"),
        (
            {INJECT: "m1", "models.example.com/mount-path": "/opt/ml/model", "larder.dev/model": "llama"},
            '/opt/ml/model, where model "m1" is mounted read-only',
        ),
    ],
)
def test_an_invalid_annotation_is_refused(annotations: dict[str, str], message: str, models: AdmissionSite) -> None:
    with pytest.raises(CallRefused) as refusal:
        models.create(plain_pod("wrong", annotations))
    assert refusal.value.status == 403
    assert message in str(refusal.value)


def test_both_webhooks_add_their_model_to_the_same_pod(models: AdmissionSite) -> None:
    pod = models.create(plain_pod("both", {INJECT: "m1", "larder.dev/model": "llama"}))
    [container] = pod["spec"]["containers"]
    paths = {m["mountPath"] for m in container["volumeMounts"]}
    assert {"/models/m1", "/opt/ml/model"} <= paths
    assert {"MODEL_PATH", "MODEL_M1_MOUNT_PATH"} <= {v["name"] for v in container["env"]}


def test_a_copy_of_an_injected_pod_is_not_sent_for_review_again(models: AdmissionSite) -> None:
    pod = models.create(plain_pod("injected-first", {INJECT: "m2"}))
    copied = {"metadata": {k: pod["metadata"][k] for k in ("annotations", "labels")}, "spec": pod["spec"]}
    copied["metadata"]["name"] = "injected-second"
    copied["spec"].pop("nodeName", None)
    again = models.create(copied)
    assert again["spec"]["volumes"] == pod["spec"]["volumes"]
    assert models.server.calls.of("injected-first")
    assert models.server.calls.of("injected-second") == []


def test_a_pod_without_the_annotation_is_not_sent_for_review(models: AdmissionSite) -> None:
    models.create(plain_pod("plain-of-models", {"models.example.com/mount-path": "/x"}))
    assert models.server.calls.of("plain-of-models") == []


def test_without_the_webhook_pods_are_admitted_without_their_model(models: AdmissionSite) -> None:
    configuration = models.api.get(f"{WEBHOOKS}/{INJECTOR}")
    [webhook] = configuration["webhooks"]
    down = webhook | {"clientConfig": webhook["clientConfig"] | {"url": "https://127.0.0.1:1/admission/x/mutate"}}

    def set_webhook(wanted: Json) -> None:
        models.api.patch(f"{WEBHOOKS}/{INJECTOR}", {"webhooks": [wanted]})

    set_webhook(down)
    try:
        probe = plain_pod("probe", {INJECT: "none"})
        wait_until(lambda: not models.refuses(f"{models.pods}?dryRun=All", probe), 60, "the webhook to be unreachable")
        pod = models.create(plain_pod("slipped", {INJECT: "m1"}))
        assert "models.example.com/injected" not in pod["metadata"].get("labels", {})
        assert not any("persistentVolumeClaim" in v for v in pod["spec"].get("volumes", []))
    finally:
        set_webhook(webhook)
        wait_until(lambda: models.refuses(f"{models.pods}?dryRun=All", probe), 60, "the webhook to be back")


async def test_models_are_read_from_the_api_server(models: AdmissionSite, control_plane: ControlPlane) -> None:
    spec = {
        "source": {"huggingFace": {"repoId": "meta-llama/Llama-3.1-8B-Instruct"}},
        "version": "3.1",
        "storage": {"storageClass": "standard", "size": "20Gi"},
    }
    for name in ("llama-3-8b", "new"):
        body = {"apiVersion": "models.example.com/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": spec}
        models.api.create(MODELS, body)
    status = {"status": {"phase": "Ready", "pvcName": "model-llama-3-8b"}}
    models.api.patch(f"{MODELS}/llama-3-8b/status", status)
    try:
        async with connect(control_plane.kubeconfig, user_agent="test") as kube:
            cluster = fresh_cluster()
            catalog = StateCatalog(
                cluster,
                kube,
                Manifests(kube, "ns"),
                ServiceUsers(kube, cluster, enabled=False),
                ResourceClaimUsers(kube, enabled=False),
            )
            assert await catalog.injectable_models(NAMESPACE, ["llama-3-8b", "none", "new"]) == {"llama-3-8b": LLAMA}
            found = await catalog.injectable_models(NAMESPACE, ["llama-3-8b", "new", "llama-3-8b"])
            assert list(found) == ["llama-3-8b", "new"]
            assert (found["new"].phase, found["new"].claim) == ("Pending", "")
            assert await catalog.injectable_models(NAMESPACE, ["../models", "llama-3-8b"]) == {}
            assert not await catalog.has_storage_class("standard")
    finally:
        models.api.delete(MODELS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"size": "20K"},
            "spec.storage.size: '20K' is not a quantity; Kubernetes has the suffixes k and Ki, but not K",
        ),
        ({"size": "0Gi"}, "spec.storage.size: 0Gi is too small"),
        ({"storageClass": "Standard!"}, "spec.storage.storageClass: 'Standard!' cannot be the name"),
    ],
)
def test_an_invalid_model_is_refused_at_creation(spec: Json, message: str, models: AdmissionSite) -> None:
    storage = {"storageClass": "standard", "size": "20Gi"} | spec
    source = {"huggingFace": {"repoId": "org/model"}}
    body = {"metadata": {"name": "wrong"}, "spec": {"source": source, "storage": storage}}
    body |= {"apiVersion": "models.example.com/v1alpha1", "kind": "Model"}
    with pytest.raises(CallRefused) as refusal:
        models.api.create(MODELS, body)
    assert message in str(refusal.value)

"""Models, caches and groups, created through the real API server."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rig.admission import AdmissionSite
from rig.larder.objects import install_webhooks
from rig.larder.webhooks import AtUrl
from rig.pods import base_model_pod, plain_pod
from rig.ports import LOOPBACK, free_port
from rig.processes import wait_until
from shared.json_object import Json

BASE = "/apis/ome.io/v1beta1/clusterbasemodels"
CACHES = "/apis/serving.kserve.io/v1alpha1/clustermodelcaches"
GROUPS = "/apis/serving.kserve.io/v1alpha1/modelcachenodegroups"


def _base_model(name: str, uri: str = "hf://meta/llama", kind: str = "ClusterBaseModel", **storage: object) -> Json:
    spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri, **storage}}
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _kserve(kind: str, name: str, **spec: object) -> Json:
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("limit", [-5, "500GB", "much"])
def test_an_invalid_quantity_is_refused_by_the_schema_with_an_example(limit: object, site: AdmissionSite) -> None:
    answer = site.kubectl("create", "-f", "-", stdin=_kserve("ModelCacheNodeGroup", "a", storageLimit=limit))
    assert answer.returncode != 0
    assert f"{limit} is not a quantity; write a number with a unit, for example 500Gi" in answer.stderr


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        (
            _base_model("a", "ftp://h/m"),
            "spec.storage.storageUri: no installed source serves ftp:// (ftp://h/m); write",
        ),
        (_base_model("a", "nfs:///m"), "no installed source serves nfs://"),
        (_base_model("a", "hf://one"), "write hf://ORG/REPO"),
        (_base_model("a", path="/etc/x"), "spec.storage.path: '/etc/x' is a system directory of the container"),
        (_base_model("a", "pvc://ns:claim/x", "BaseModel"), "write pvc://CLAIM/SUB-PATH"),
        (
            _kserve("ClusterModelCache", "a", storageUri="s3://bucket/m", nodeGroup="none"),
            "no ModelCacheNodeGroup 'none'",
        ),
        (
            _kserve("ClusterModelCache", "a", storageUri="nfs://x/y/z", nodeGroup="none"),
            "no installed source serves nfs://",
        ),
        (
            _kserve("ModelCacheNodeGroup", "a", storageLimit="1Gi", nodeAffinity={"nodeSelectorTerms": []}),
            "nodeSelectorTerms is not a field of a node affinity",
        ),
    ],
)
def test_an_invalid_spec_is_refused_with_the_reason(body: Json, phrase: str, site: AdmissionSite) -> None:
    answer = site.kubectl("create", "-f", "-", stdin=body)
    assert answer.returncode != 0
    assert 'admission webhook "models.larder.dev" denied the request: ' in answer.stderr
    assert phrase in answer.stderr


def test_a_vendor_uri_is_accepted_with_a_warning(site: AdmissionSite) -> None:
    answer = site.kubectl("create", "--dry-run=server", "-f", "-", stdin=_base_model("v", "vendor://acme/llm/x"))
    assert answer.returncode == 0
    assert "Warning: larder: vendor://acme/llm/x is ignored" in answer.stderr


def test_a_model_in_use_is_not_deleted(site: AdmissionSite) -> None:
    site.api.create(BASE, _base_model("used"))
    site.catalog.users = {"used": ["team/pod-1", "team/pod-2"]}
    answer = site.kubectl("delete", "clusterbasemodel", "used")
    assert answer.returncode != 0
    assert "ClusterBaseModel used is used by 2 pods: team/pod-1, team/pod-2; delete those first" in answer.stderr
    assert "InUse" in answer.stderr
    site.catalog.users = {}
    assert site.api.delete(f"{BASE}/used")
    assert not site.api.answers(f"{BASE}/used")


def test_writes_of_metadata_or_status_alone_are_not_sent_for_review(site: AdmissionSite) -> None:
    site.api.create(BASE, _base_model("touched"))
    before = len(site.server.calls.of("touched"))
    site.api.patch(f"{BASE}/touched", {"metadata": {"finalizers": ["test.larder.dev/f"], "labels": {"a": "b"}}})
    site.api.patch(f"{BASE}/touched/status", {"status": {"state": "Ready"}})
    assert len(site.server.calls.of("touched")) == before
    site.api.delete(f"{BASE}/touched")
    site.api.patch(f"{BASE}/touched", {"metadata": {"finalizers": None}})
    assert len(site.server.calls.of("touched")) == before + 1
    assert not site.api.answers(f"{BASE}/touched")


def test_a_changed_uri_is_checked(site: AdmissionSite) -> None:
    site.api.create(BASE, _base_model("moved"))
    moved = {"spec": {"storage": {"storageUri": "nothing"}}}
    answer = site.kubectl("patch", "clusterbasemodel", "moved", "--type=merge", "--patch-file=/dev/stdin", stdin=moved)
    assert "'nothing' is not a URI; write for example hf://org/model" in answer.stderr
    assert site.api.delete(f"{BASE}/moved")


@pytest.fixture
def no_server(site: AdmissionSite) -> Iterator[None]:
    """Our webhooks at a port without a server."""
    away = AtUrl(f"https://{LOOPBACK}:{free_port()}")
    install_webhooks(site.api, replace(site.settings, address=away))
    wait_until(lambda: "connection refused" in _ask(site), 60, "the server to be away")
    yield
    install_webhooks(site.api, site.settings)
    wait_until(lambda: "no BaseModel" in _ask(site), 60, "the server to be back")


def _ask(site: AdmissionSite) -> str:
    return str(site.kubectl("create", "--dry-run=server", "-f", "-", stdin=base_model_pod("ask", "none")).stderr)


@pytest.mark.usefixtures("no_server")
def test_without_our_server_only_pods_that_request_a_model_are_refused(site: AdmissionSite) -> None:
    assert site.create(plain_pod("free"))
    assert 'failed calling webhook "pods.larder.dev"' in _ask(site)

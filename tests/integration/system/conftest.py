"""One cluster with Larder on it for this folder: two GPU nodes in a group, one node outside, a hub, an S3 server."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.objects import open_to_services
from rig.larder.site import Site
from shared.names import NODE_PREFIXES
from tests.integration.system.claims import NAMESPACE, PODS
from tests.integration.system.download_pods import CLASS, CLASSES
from tests.integration.system.sites import CSI_DRIVER, GPU, KSERVE_SERVICES, opened

Why = Callable[..., str]


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A control plane of its own: these tests install webhooks, kill controllers and lose nodes."""
    settings = {
        "LARDER_DRAIN_SECONDS": "1",
        "LARDER_LEASE_SECONDS": "8",
        "LARDER_AGENT_LOST_SECONDS": "8",
        "LARDER_FINALIZER_SECONDS": "60",
        "LARDER_MODEL_CACHE_CSI_DRIVERS": json.dumps([CSI_DRIVER]),
    }
    with opened(binaries, tmp_path_factory.mktemp("site"), settings, {"a": GPU, "b": GPU, "c": {}}) as site:
        yield site


@pytest.fixture(scope="module")
def storage_class(site: Site) -> Iterator[None]:
    """The class of claims whose volumes the tests create."""
    site.api.ensure(CLASSES, {"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner"})
    yield
    site.api.delete(f"{CLASSES}/{CLASS}")


@pytest.fixture
def claims_namespace(site: Site) -> Iterator[None]:
    """A namespace where the strictest pod security is enforced, without a Job or a pod of an earlier test."""
    levels = {"pod-security.kubernetes.io/enforce": "restricted"}
    site.api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": levels}})
    open_to_services(site.api, NAMESPACE)
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"), "the account")
    yield
    for pod in site.api.get(PODS)["items"]:
        site.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0)


@pytest.fixture(autouse=True)
def _calm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no fault, no label and no ended program of one test to the next."""
    if "site" not in request.fixturenames:
        yield
        return
    site: Site = request.getfixturevalue("site")
    before = {node: _selected_by(site, node) for node in ("a", "b", "c") if node in site.cluster.agents}
    yield
    site.hub.faults.clear()
    site.cluster.restore()
    for node, labels in before.items():
        if left := _selected_by(site, node) - labels:
            site.label(node, dict.fromkeys(left))


def _selected_by(site: Site, node: str) -> set[str]:
    """Return the labels by which groups and models choose a node: all but the agent's."""
    return {key for key in site.labels(node) if not key.startswith(NODE_PREFIXES)}


@pytest.fixture
def why(site: Site) -> Why:
    """Run the command as a user would, and return what it printed."""

    def run(*arguments: str, exits: int = 0) -> str:
        kubeconfig = f"--kubeconfig={site.cluster.plane.kubeconfig}"
        argv = [sys.executable, "-m", "shared.cli", "why", kubeconfig, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        assert (done.returncode, done.stderr) == (exits, "")
        return done.stdout

    return run


@pytest.fixture
def kserve(site: Site) -> Iterator[None]:
    """KServe's kind, as far as it matters here."""
    name, definitions = "inferenceservices.serving.kserve.io", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "InferenceService", "plural": "inferenceservices", "singular": "inferenceservice"}
    spec = {"group": "serving.kserve.io", "scope": "Namespaced", "names": names, "versions": [version]}
    site.api.create(definitions, {"metadata": {"name": name}, "spec": spec})
    site.until(lambda: site.api.answers(KSERVE_SERVICES), "KServe's kind to be served")
    yield
    site.api.delete(f"{definitions}/{name}")
    site.until(lambda: not site.api.answers(KSERVE_SERVICES), "KServe's kind to be gone")

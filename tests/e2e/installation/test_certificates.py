import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from rig import agents
from rig.agents import AgentPod
from rig.errors import CallRefused
from rig.larder.cluster_driver import TIMEOUT_S
from rig.node.installation import NAMESPACE, Installation
from rig.node.namespaces import within_network

CONTROLLER = {"drainSeconds": 2}
NAME = f"larder.{NAMESPACE}.svc"
RENEW_AFTER, OLD_CA_UNTIL = "larder.dev/renew-after", "larder.dev/old-ca-until"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_PODS = "/api/v1/namespaces/default/pods?dryRun=All"
_ON_NODES_S = 240.0  # kubelet's sync period, and the interval at which programs check their files


@dataclass
class _Asking:
    """Requests pods with a model one after another until it is closed; nothing is stored."""

    site: Installation
    model: str
    refusals: list[str] = field(default_factory=list)
    admitted: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Request pods in another thread."""
        stop = threading.Event()
        thread = threading.Thread(target=self._ask, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _ask(self, stop: threading.Event) -> None:
        metadata = {"generateName": "asks-", "annotations": {"ome.io/base-model-name": self.model}}
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        api = self.site.cluster.plane.api_for("asker", ["system:masters"])
        while not stop.wait(0.1):
            try:
                admitted = api.create(_PODS, pod)
            except CallRefused as refusal:
                self.refusals.append(str(refusal))
            else:
                assert "nodeSelector" in admitted["spec"]
                self.admitted += 1
        api.close()


@dataclass(frozen=True)
class _Replicas:
    """The controller's replicas as an agent sees them, each at its own address."""

    site: Installation

    def addresses(self) -> list[str]:
        """Return the addresses of the replicas."""
        return [pod["status"]["podIP"] for pod in self.site.pods("app.kubernetes.io/component=controller")]

    def shown(self) -> set[str]:
        """Return the served certificates as PEM; empty if a replica does not answer in time."""
        with within_network(self.site.cluster.lan.network), suppress(OSError):
            return {ssl.get_server_certificate((address, 8443), timeout=10) for address in self.addresses()}
        return set()

    def report(self) -> list[int]:
        """Report progress to each replica as the agent of node one, with its CA; followers ask the leader."""
        meta = self.site.ready_agent("one")["metadata"]
        token = agents.token(self.site.api, AgentPod(NAMESPACE, meta["name"], meta["uid"], "larder-agent"), ["larder"])
        trust = ssl.create_default_context(cadata=_secret(self.site, "larder-tls")["ca.crt"])
        headers = {"Authorization": f"Bearer {token}"}
        with (
            within_network(self.site.cluster.lan.network),
            httpx.Client(verify=trust, trust_env=False, timeout=TIMEOUT_S) as client,
        ):
            return [
                client.post(
                    f"https://{address}:8443/v1/progress",
                    json={"entries": []},
                    headers=headers,
                    extensions={"sni_hostname": NAME},
                ).status_code
                for address in self.addresses()
            ]


def _secret(site: Installation, name: str) -> dict[str, str]:
    data = site.api.get(f"{_SECRETS}/{name}")["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def _on_node(site: Installation, component: str) -> set[str]:
    """Return the CA that is mounted in the pods of a program."""
    path = {"agent": "/etc/larder/api/ca.crt", "controller": "/etc/larder/tls/ca.crt"}[component]
    read = ["/opt/venv/bin/python", "-c", f"print(open('{path}').read(), end='')"]
    pods = site.pods(f"app.kubernetes.io/component={component}")
    return {site.cluster.exec(NAMESPACE, pod["metadata"]["name"], read, component) for pod in pods}


def _wait_on_nodes(site: Installation) -> None:
    """Wait until every pod has the certificates of the Secret, and every replica serves them."""
    secret = _secret(site, "larder-tls")
    for component in ("agent", "controller"):
        site.until(lambda: _on_node(site, component) == {secret["ca.crt"]}, f"the CA in {component}s", _ON_NODES_S)  # noqa: B023 - called before the next turn
    shown = _Replicas(site)
    site.until(lambda: shown.shown() == {secret["tls.crt"]}, "replicas to show it", _ON_NODES_S)


def _skip_wait(site: Installation, annotation: str) -> None:
    site.api.patch(f"{_SECRETS}/larder-tls", {"metadata": {"annotations": {annotation: None}}})


def _restarts(site: Installation) -> dict[str, int]:
    pods = site.pods("app.kubernetes.io/part-of=larder")
    return {
        pod["metadata"]["name"]: sum(s["restartCount"] for s in pod["status"]["containerStatuses"])
        for pod in pods
        if pod["metadata"]["labels"]["app.kubernetes.io/component"] in ("agent", "controller")
    }


def _works(site: Installation) -> None:
    """Agents get manifests, and reports of progress reach the leader from each replica."""
    site.until(lambda: _Replicas(site).report() == [204, 204], "each replica to bring a report to the leader")
    site.wait_ready("ClusterBaseModel", site.base_model(nodeSelector={"gpu": "yes"}))


@pytest.fixture
def asking(site: Installation) -> Iterator[_Asking]:
    """Pods with a ready model are requested throughout the test."""
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    found = _Asking(site, model)
    with found.running():
        yield found


def test_a_new_certificate_and_a_new_ca_are_used_without_restarts_or_refused_pods(
    site: Installation, asking: _Asking
) -> None:
    before, first = _restarts(site), _secret(site, "larder-tls")
    _skip_wait(site, RENEW_AFTER)
    site.install(controller=CONTROLLER)
    assert _secret(site, "larder-tls")["tls.crt"] != first["tls.crt"]
    assert _secret(site, "larder-tls")["ca.crt"] == first["ca.crt"]
    _wait_on_nodes(site)
    _works(site)

    site.api.delete(f"{_SECRETS}/larder-ca")
    for annotation, authorities in (("", 2), (RENEW_AFTER, 2), (OLD_CA_UNTIL, 1)):
        if annotation:
            _skip_wait(site, annotation)
        site.install(controller=CONTROLLER)
        assert _secret(site, "larder-tls")["ca.crt"].count("BEGIN CERTIFICATE") == authorities
        _wait_on_nodes(site)
        _works(site)
    assert _secret(site, "larder-tls")["ca.crt"] != first["ca.crt"]
    assert asking.refusals == []
    assert asking.admitted > 100
    assert _restarts(site) == before


def test_no_pod_is_refused_after_ca_and_tls_secrets_are_lost_together(site: Installation, asking: _Asking) -> None:
    before = _restarts(site)
    for name in ("larder-ca", "larder-tls"):
        site.api.delete(f"{_SECRETS}/{name}")
    site.install(controller=CONTROLLER)
    _wait_on_nodes(site)
    _works(site)
    assert asking.refusals == []
    assert _restarts(site) == before

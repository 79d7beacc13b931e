# ruff: noqa: INP001, S310, T201 - a program of the chart, no package; it knows its addresses; helm shows what it prints
"""What helm has done in a pod: `test` looks at an installation, `uninstall` lets the models go.

It needs Python's own library alone, and is handed to the interpreter as an argument.
"""

import json
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CA = "/etc/larder/api/ca.crt"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN_FINALIZER = "larder.dev/finalizer"
NOT_FOUND, CONFLICT = 404, 409
ATTEMPTS = 5
PAGE = 500
TIMEOUT_S = 20
Json = dict[str, Any]


class Api:
    """The API server, as this pod's account."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self.root = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        self.token = (ACCOUNT / "token").read_text()

    def call(self, method: str, path: str, body: object = None) -> Json | None:
        """Return the answer, None where there is nothing by that name; raise HTTPError."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self.trust) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def list(self, path: str) -> Iterator[Json]:
        """Yield the objects of a collection, page by page."""
        after = ""
        while True:
            found = self.call("GET", f"{path}?limit={PAGE}&continue={after}") or {}
            yield from found.get("items", [])
            after = found.get("metadata", {}).get("continue", "")
            if not after:
                return


def certificate(service: str) -> str:
    """Return what the Service shows; raise SSLError where the CA does not vouch for it."""
    trust = ssl.create_default_context(cafile=CA)
    with (
        socket.create_connection((service, 443), timeout=TIMEOUT_S) as plain,
        trust.wrap_socket(plain, server_hostname=service) as tls,
    ):
        return f"{service}: {tls.version()}, certificate until {(tls.getpeercert() or {})['notAfter']}"


def replica(metrics: str) -> str:
    """Return what a replica says of itself; raise HTTPError where it is not ready."""
    with urllib.request.urlopen(f"http://{metrics}/readyz", timeout=TIMEOUT_S) as answer:
        return f"{metrics}: {answer.read().decode().strip()}"


def agents(daemon_set: Json | None, namespace: str) -> str:
    """Return how many agents there are; exit where some have no pod, or none is ready."""
    status = (daemon_set or {}).get("status", {})
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    wanted, made, ready = (int(status.get(key, 0)) for key in keys)
    if made < wanted:
        sys.exit(
            f"{wanted - made} of {wanted} agents have no pod. A namespace that enforces pod security rejects "
            "them silently, because they mount a host directory; to allow them, run:\n"
            f"  kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged\n"
            f"If that does not help, see: kubectl --namespace {namespace} describe daemonset larder-agent"
        )
    if wanted and not ready:
        sys.exit(f"none of {wanted} agents is ready; see: kubectl --namespace {namespace} get pods")
    return f"agents: {ready} of {wanted} ready"


def test(service: str, metrics: str, namespace: str) -> None:
    """Look at everything that an installation consists of."""
    print(certificate(service))
    print(replica(metrics))
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/larder-agent"
    print(agents(Api().call("GET", path), namespace))


def uninstall(finalizers: str) -> None:
    """Take Larder's finalizers from the models that stay; `finalizers`: one by CustomResourceDefinition, as JSON.

    Otherwise nobody could delete them, nor a namespace that has some. A Larder that is installed again sets them again,
    and removes files of models that went in between.
    """
    api = Api()
    for definition, finalizer in json.loads(finalizers).items():
        print(f"{definition}: {remove_finalizers(api, definition, finalizer)} can now be deleted without Larder")


def remove_finalizers(api: Api, definition: str, finalizer: str) -> int:
    """Take Larder's finalizers from the objects of a kind, and return how many had them.

    Where another product made the kind, `finalizer` is that product's own.
    """
    kind = api.call("GET", f"{DEFINITIONS}/{definition}")
    if kind is None:
        return 0
    is_ours = kind["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "larder"
    ours = {OWN_FINALIZER, finalizer} if is_ours else {OWN_FINALIZER}
    group, version, plural = kind["spec"]["group"], kind["spec"]["versions"][0]["name"], kind["spec"]["names"]["plural"]
    count = 0
    for found in api.list(f"/apis/{group}/{version}/{plural}"):
        meta = found["metadata"]
        if ours & set(meta.get("finalizers", [])):
            inside = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
            take(api, f"/apis/{group}/{version}/{inside}{plural}/{meta['name']}", ours)
            count += 1
    return count


def take(api: Api, path: str, finalizers: set[str]) -> None:
    """Take finalizers from one object, which others may be changing or deleting."""
    for _ in range(ATTEMPTS):
        found = api.call("GET", path)
        there = found["metadata"].get("finalizers", []) if found else []
        if found is None or not finalizers & set(there):
            return
        left = [name for name in there if name not in finalizers]
        change = {"resourceVersion": found["metadata"]["resourceVersion"], "finalizers": left}
        try:
            api.call("PATCH", path, {"metadata": change})
        except urllib.error.HTTPError as error:
            if error.code != CONFLICT:
                raise
        else:
            return
    sys.exit(f"{path} kept changing during {ATTEMPTS} attempts; run the uninstall again")


COMMANDS: dict[str, Callable[..., None]] = {"test": test, "uninstall": uninstall}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])

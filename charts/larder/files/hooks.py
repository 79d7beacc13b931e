# ruff: noqa: INP001, S310, T201 - a program of the chart, not a package; its URLs are fixed; helm shows its output
"""The hooks that helm runs in a pod: `test` checks an installation, `uninstall` removes Larder's finalizers.

The pod passes this text to the interpreter as an argument, so it uses only the standard library.
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
    """The API server, called with this pod's service account."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self.root = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        self.token = (ACCOUNT / "token").read_text()

    def call(self, method: str, path: str, body: object = None) -> Json | None:
        """Return the JSON of the response; None if the object does not exist. Raises HTTPError."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self.tls) as response:
                return dict(json.load(response))
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


def check_certificate(service: str) -> str:
    """Return a line about the Service's certificate. Raises SSLError if the CA did not sign it."""
    context = ssl.create_default_context(cafile=CA)
    with (
        socket.create_connection((service, 443), timeout=TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=service) as tls,
    ):
        return f"{service}: {tls.version()}, certificate until {(tls.getpeercert() or {})['notAfter']}"


def check_replica(metrics: str) -> str:
    """Return what a replica reports about its readiness. Raises HTTPError if it is not ready."""
    with urllib.request.urlopen(f"http://{metrics}/readyz", timeout=TIMEOUT_S) as response:
        return f"{metrics}: {response.read().decode().strip()}"


def check_agents(daemon_set: Json | None, namespace: str) -> str:
    """Return how many agents are ready. Exits if some have no pod, or if none is ready."""
    status = (daemon_set or {}).get("status", {})
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    wanted, created, ready = (int(status.get(key, 0)) for key in keys)
    if created < wanted:
        sys.exit(
            f"{wanted - created} of {wanted} agents have no pod. A namespace that enforces pod security rejects "
            "them silently, because they mount a host directory; to allow them, run:\n"
            f"  kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged\n"
            f"If that does not help, see: kubectl --namespace {namespace} describe daemonset larder-agent"
        )
    if wanted and not ready:
        sys.exit(f"none of {wanted} agents is ready; see: kubectl --namespace {namespace} get pods")
    return f"agents: {ready} of {wanted} ready"


def test(service: str, metrics: str, namespace: str) -> None:
    """Check the Service, a replica and the agents."""
    print(check_certificate(service))
    print(check_replica(metrics))
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/larder-agent"
    print(check_agents(Api().call("GET", path), namespace))


def uninstall(finalizers: str) -> None:
    """Remove Larder's finalizers from the objects that stay, so that they and their namespaces can be deleted.

    `finalizers` is a JSON object with the finalizer by CustomResourceDefinition. If Larder is installed again, it sets
    the finalizers again, and removes the files of models that were deleted meanwhile.
    """
    api = Api()
    for definition, finalizer in json.loads(finalizers).items():
        print(f"{definition}: {remove_finalizers(api, definition, finalizer)} can now be deleted without Larder")


def remove_finalizers(api: Api, definition: str, finalizer: str) -> int:
    """Remove Larder's finalizers from the objects of a kind, and return how many objects had them.

    If another product defined the kind, `finalizer` belongs to that product and stays.
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
            remove_from_object(api, f"/apis/{group}/{version}/{inside}{plural}/{meta['name']}", ours)
            count += 1
    return count


def remove_from_object(api: Api, path: str, finalizers: set[str]) -> None:
    """Remove finalizers from one object, which others may be changing or deleting."""
    for _ in range(ATTEMPTS):
        found = api.call("GET", path)
        present = found["metadata"].get("finalizers", []) if found else []
        if found is None or not finalizers & set(present):
            return
        left = [name for name in present if name not in finalizers]
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

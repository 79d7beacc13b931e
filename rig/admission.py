"""Larder's admission on a real API server: webhooks by URL, and a catalog that the test fills."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.admission.callers import Callers
from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.server import admission_app
from controller.admission.settings import AdmissionSettings
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.larder.objects import ensure, install_kinds, install_webhooks, refused_group
from rig.larder.programs import ADMISSION_KEY, ADMISSION_TIMEOUT_S
from rig.larder.webhooks import INJECTOR, AtUrl, WebhookSettings, mutating_configuration
from rig.pods import base_model_pod
from rig.processes import wait_until
from rig.webhook_server import WebhookServer, serve

NAMESPACE = "admission"
_STORE_ROOT = "/var/lib/larder"
_IN_FORCE_S = 60.0
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class AdmissionSite:
    """The API server with our webhooks active, the state behind them, and the requests they received."""

    api: Api
    server: WebhookServer
    catalog: MemoryCatalog
    settings: WebhookSettings
    kubectl_argv: tuple[str, ...]
    pods: str = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def kubectl(self, *arguments: str, stdin: object = None) -> "subprocess.CompletedProcess[str]":
        """Run kubectl in the namespace of the site, as users do."""
        text = json.dumps(stdin) if stdin is not None else None
        return subprocess.run([*self.kubectl_argv, *arguments], input=text, capture_output=True, text=True, check=False)

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Create a pod in the namespace of the site and return it as admitted."""
        return self.api.create(self.pods, pod)

    def refuses(self, path: str, body: dict[str, Any]) -> bool:
        """Return whether one of our webhooks refuses an object; the path must request a dry run."""
        try:
            self.api.create(path, body)
        except CallRefused as refusal:
            return "denied the request" in str(refusal)
        return False


@contextmanager
def admission_site(plane: ControlPlane, kubectl: Path, catalog: MemoryCatalog, folder: Path) -> Iterator[AdmissionSite]:
    """Install CRDs and webhooks, wait until they are active, and remove the webhooks afterwards."""
    install_kinds(plane.api)
    plane.api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    argv = (str(kubectl), f"--kubeconfig={plane.kubeconfig}", f"--namespace={NAMESPACE}")
    app = admission_app(catalog, AdmissionSettings(_STORE_ROOT, mount="hostPath"), Callers(lambda: (ADMISSION_KEY,)))
    with serve(app, folder) as server:
        settings = _settings(server, "larder-admission")
        site = AdmissionSite(plane.api, server, catalog, settings, argv)
        install_webhooks(plane.api, settings)
        try:
            pods = f"{site.pods}?dryRun=All"
            wait_until(lambda: site.refuses(pods, base_model_pod("probe", "none")), _IN_FORCE_S, "the pods' webhook")
            wait_until(lambda: site.refuses(*refused_group("probe")), _IN_FORCE_S, "the models' webhook")
            yield site
        finally:
            plane.api.delete(f"{_REGISTRATION}/mutatingwebhookconfigurations/{settings.name}")
            plane.api.delete(f"{_REGISTRATION}/mutatingwebhookconfigurations/{INJECTOR}")
            plane.api.delete(f"{_REGISTRATION}/validatingwebhookconfigurations/{settings.name}")
            plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}")


def _settings(server: WebhookServer, name: str) -> WebhookSettings:
    return WebhookSettings(
        AtUrl(server.url), server.ca_pem, ADMISSION_KEY, "larder-system", _STORE_ROOT, name, ADMISSION_TIMEOUT_S
    )


@contextmanager
def later_webhook(api: Api, server: WebhookServer) -> Iterator[None]:
    """Send pods with annotation `later` to another webhook server, after ours."""
    settings = _settings(server, "zz-later")
    configuration = mutating_configuration(settings)
    asked = "has(object.metadata.annotations) && 'later' in object.metadata.annotations"
    webhook = configuration["webhooks"][0] | {
        "name": "later.example.com",
        "matchConditions": [{"name": "asked", "expression": asked}],
    }
    ensure(api, configuration | {"webhooks": [webhook]})
    try:
        yield
    finally:
        api.delete(f"{_REGISTRATION}/mutatingwebhookconfigurations/{settings.name}")

"""Webhook configurations of other operators, for programs that run beside the cluster."""

import base64
import ssl
from http import HTTPStatus
from pathlib import Path

import httpx
import yaml

from rig.processes import wait_until
from shared.json_object import Json

_SERVED_S = 60.0


def webhooks_at(manifests: Path, name: str, url: str, ca_pem: bytes) -> list[Json]:
    """Return the configurations in a file of manifests, renamed and pointed at a URL.

    Args:
        manifests: The file.
        name: The name of every configuration; kubebuilder gives all of them the same name.
        url: The address of the program.
        ca_pem: The CA of its certificate.
    """
    found = [document for document in yaml.load_all(manifests.read_text(), yaml.CSafeLoader) if document]
    for configuration in found:
        configuration["metadata"] = {"name": name}
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(ca_pem).decode()}
    return found


def wait_served(configurations: list[Json], ca_pem: bytes) -> None:
    """Wait until a program serves the paths of its webhooks.

    Many operators report ready first and add their webhooks a moment later. Until then they answer 404.
    """
    trusted = ssl.create_default_context(cadata=ca_pem.decode())
    with httpx.Client(verify=trusted, trust_env=False, timeout=10.0) as client:
        for configuration in configurations:
            for webhook in configuration["webhooks"]:
                url = webhook["clientConfig"]["url"]
                wait_until(lambda at=url: _serves(client, at), _SERVED_S, f"an answer from {url}")  # type: ignore[misc]


def _serves(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code != HTTPStatus.NOT_FOUND
    except httpx.TransportError:
        return False

"""Webhook configurations of other operators, for programs that run beside the cluster."""

import base64
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


def webhooks_at(manifests: Path, name: str, url: str, ca_pem: bytes) -> list[Json]:
    """Return the configurations in a file of manifests, renamed and aimed at a URL.

    Args:
        manifests: The file.
        name: Name of every configuration; those of kubebuilder are all named alike.
        url: Where the program listens.
        ca_pem: The CA of its certificate.
    """
    found = [document for document in yaml.load_all(manifests.read_text(), yaml.CSafeLoader) if document]
    for configuration in found:
        configuration["metadata"] = {"name": name}
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(ca_pem).decode()}
    return found

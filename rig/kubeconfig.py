"""Self-contained kubeconfig files (JSON, which is valid YAML)."""

import base64
import json
from pathlib import Path
from typing import Any

from rig.pki import Pair


def with_certificate(server: str, ca_pem: bytes, pair: Pair) -> dict[str, Any]:
    """Return a kubeconfig for a client certificate."""
    user = {"client-certificate-data": _text(pair.public_pem), "client-key-data": _text(pair.private_pem)}
    return _config(server, ca_pem, user)


def with_token(server: str, ca_pem: bytes, token: str) -> dict[str, Any]:
    """Return a kubeconfig for a bearer token."""
    return _config(server, ca_pem, {"token": token})


def write(config: dict[str, Any], path: Path) -> Path:
    """Write a kubeconfig readable only by its owner, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
    return path


def _config(server: str, ca_pem: bytes, user: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {"server": server, "certificate-authority-data": _text(ca_pem)}}],
        "users": [{"name": "rig", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "current-context": "rig",
    }


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()

"""A real container registry (distribution, in memory) that requires tokens of the rig's own token service."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program
from rig.registry_tokens import ISSUER, SERVICE, RegistryTokens
from rig.running import RunningProcess
from rig.scripted_http import ScriptedServer

_READY_S = 60.0
_TIMEOUT_S = 30.0
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_EMPTY = "application/vnd.oci.empty.v1+json"
_MODEL_PACK = "application/vnd.cncf.model.manifest.v1+json"
FILE_PATH = "org.cncf.model.filepath"
TITLE = "org.opencontainers.image.title"


class Registry(RunningProcess):
    """A running registry; use as a context manager. `name` is HOST:PORT as in URIs."""

    def __init__(self, registry: Path, state: Path) -> None:
        self._program, self._state = registry, state
        port = free_port()
        self.name, self.endpoint = f"{LOOPBACK}:{port}", f"http://{LOOPBACK}:{port}"
        self.tokens = RegistryTokens()
        self.token_service = ScriptedServer(self.tokens.answer)
        self.client = httpx.Client(base_url=self.endpoint, timeout=_TIMEOUT_S, trust_env=False)

    def start(self) -> None:
        """Start the registry and wait until it answers."""
        self._state.mkdir(parents=True, exist_ok=True)
        keys, config = self._state / "jwks.json", self._state / "registry.json"
        self.tokens.write_jwks(keys)
        config.write_text(json.dumps(self._config(keys)))  # JSON is valid YAML
        program = Program("registry", [str(self._program), "serve", str(config)], {"OTEL_TRACES_EXPORTER": "none"})
        self._process = Process(program, self._state / "log" / "registry.log")
        self._process.wait_ready(self._answers, _READY_S)

    def stop(self) -> None:
        """Stop the registry."""
        self.client.close()
        self.token_service.close()
        super().stop()

    def push(self, repository: str, tag: str, files: Mapping[str, bytes]) -> str:
        """Push files as layers with titles, and return the digest of the manifest."""
        layers = [
            self.push_blob(repository, body, "application/octet-stream") | {"annotations": {TITLE: path}}
            for path, body in files.items()
        ]
        return self.push_manifest(repository, tag, layers)

    def push_model_pack(self, repository: str, tag: str, layers: Mapping[str, tuple[str, bytes]]) -> str:
        """Push a ModelPack of layers by path, each `raw`, `tar` or `tar+gzip`; return the digest of its manifest."""
        pushed = [
            self.push_blob(repository, body, f"application/vnd.cncf.model.weight.v1.{form}")
            | {"annotations": {FILE_PATH: path}}
            for path, (form, body) in layers.items()
        ]
        return self.push_manifest(repository, tag, pushed, artifactType=_MODEL_PACK)

    def push_blob(self, repository: str, body: bytes, media_type: str) -> dict[str, Any]:
        """Push a blob and return its descriptor."""
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        headers = self._headers(repository)
        place = self.client.post(f"/v2/{repository}/blobs/uploads/", headers=headers).raise_for_status()
        url = httpx.URL(place.headers["location"]).copy_merge_params({"digest": digest})
        self.client.put(url, content=body, headers=headers).raise_for_status()
        return {"mediaType": media_type, "digest": digest, "size": len(body)}

    def push_manifest(self, repository: str, tag: str, layers: list[dict[str, Any]], **more: object) -> str:
        """Push a manifest of existing layers, and return its digest."""
        config = self.push_blob(repository, b"{}", _EMPTY)
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers, **more}
        return self.put(repository, tag, json.dumps(manifest).encode(), str(manifest["mediaType"]))

    def put(self, repository: str, tag: str, body: bytes, media_type: str) -> str:
        """Push a manifest or an index unchanged, and return its digest."""
        headers = self._headers(repository) | {"Content-Type": media_type}
        self.client.put(f"/v2/{repository}/manifests/{tag}", content=body, headers=headers).raise_for_status()
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _headers(self, repository: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens.token(repository, ['pull', 'push'])}"}

    def _config(self, keys: Path) -> dict[str, Any]:
        token = {
            "realm": f"{self.token_service.url}/token", "service": SERVICE, "issuer": ISSUER, "jwks": str(keys),
        }  # fmt: skip
        return {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"inmemory": {}},
            "http": {"addr": self.name},
            "auth": {"token": token},
        }

    def _answers(self) -> bool:
        try:
            return self.client.get("/v2/").status_code == httpx.codes.UNAUTHORIZED
        except httpx.HTTPError:
            return False

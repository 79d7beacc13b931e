"""The example plugin is installed like any distribution and serves its URIs."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.builders.distributions import install_example

API = "/api/model_registry/v1alpha3"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed without an index."""
    folder = tmp_path_factory.mktemp("site")
    install_example("model-registry", folder)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def registry(files: Path) -> Iterator[str]:
    """A server with one model, whose version 3.1 is in a local directory."""
    answers = {
        f"{API}/registered_model?name=llama": {"id": "1"},
        f"{API}/model_version?name=3.1&parentResourceId=1": {"id": "7"},
        f"{API}/model_versions/7/artifacts?": {"items": [{"uri": f"local://{files}"}]},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            body = json.dumps(found or {"message": "not found"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(site: Path, uri: str, into: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONPATH": str(site), "LARDER_ALLOW_ADDRESSES": "127.0.0.0/8"} | environment
    command = [sys.executable, "-m", "shared.cli", "fetch", uri, "--to", str(into)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603 - our own text


def test_a_version_in_the_registry_is_fetched(site: Path, registry: str, files: Path, tmp_path: Path) -> None:
    environment = {"MODEL_REGISTRY_URL": registry, "LARDER_LOCAL_ROOTS": str(files.parent)}
    done = fetch(site, "model-registry://llama/3.1", tmp_path / "model", **environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "config.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("uri", "phrase"),
    [
        ("model-registry://llama/4", "SourceNotFound: model-registry://llama/4: the registry has no /model_version"),
        ("model-registry://llama", "write model-registry://MODEL/VERSION"),
    ],
)
def test_a_missing_or_malformed_model_is_reported(
    site: Path, registry: str, uri: str, phrase: str, tmp_path: Path
) -> None:
    done = fetch(site, uri, tmp_path / "model", MODEL_REGISTRY_URL=registry)
    assert done.returncode == 1
    assert phrase in done.stderr

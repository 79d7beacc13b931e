"""`larder fetch` of an archive from a real server of each kind."""

import functools
import http.server
import io
import ssl
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from agent.cli.fetch import run_fetch
from rig.azure import Azure
from rig.gcs import Gcs
from rig.hub import Hub
from rig.registry import Registry
from rig.s3 import S3
from tests.builders.archives import tar, tar_gz, zipped

FILES = {"m/config.json": b"{}", "m/model.safetensors": b"w" * 3_000_000}


def fetch(uri: str, environ: dict[str, str], to: Path) -> dict[str, bytes]:
    """Return what the command put into the directory."""
    out, error = io.StringIO(), io.StringIO()
    assert run_fetch(uri, to, {"HOME": str(to.parent), **environ}, out, error) == 0, error.getvalue()
    return {p.relative_to(to).as_posix(): p.read_bytes() for p in to.rglob("*") if p.is_file()}


def test_an_archive_in_s3_is_unpacked_by_object_or_prefix(s3: S3, tmp_path: Path) -> None:
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3.path(bucket).mkdir()
    s3.put(bucket, "models/m.tar.gz", tar_gz(FILES))
    environ = {
        "AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": s3.region,
        "AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }  # fmt: skip
    assert fetch(f"s3://{bucket}/models/m.tar.gz", environ, tmp_path / "object") == FILES
    assert fetch(f"s3://{bucket}/models", environ, tmp_path / "prefix") == FILES
    s3.put(bucket, "models/other.tar", tar(FILES))
    assert set(fetch(f"s3://{bucket}/models", environ, tmp_path / "two")) == {"m.tar.gz", "other.tar"}


def test_an_archive_in_google_cloud_storage_is_unpacked(gcs: Gcs, tmp_path: Path) -> None:
    bucket = f"bucket-{uuid.uuid4().hex}"
    gcs.make_bucket(bucket)
    gcs.put(bucket, "m/m.zip", zipped(FILES))
    assert fetch(f"gs://{bucket}/m", {"STORAGE_EMULATOR_HOST": gcs.endpoint}, tmp_path / "dir") == FILES


def test_an_archive_in_azure_is_unpacked(azure: Azure, tmp_path: Path) -> None:
    container = f"container-{uuid.uuid4().hex}"
    azure.make_container(container)
    azure.put(container, "m.tgz", tar_gz(FILES))
    environ = {
        "AZURE_STORAGE_SERVICE_ENDPOINT": azure.endpoint, "AZURE_STORAGE_KEY": azure.key,
        "AZURE_STORAGE_ACCOUNT": azure.account,
    }  # fmt: skip
    assert fetch(f"az://{azure.account}/{container}/m.tgz", environ, tmp_path / "dir") == FILES


def test_a_hub_repository_of_one_archive_is_unpacked(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "pushed").mkdir()
    (tmp_path / "pushed" / "m.tar").write_bytes(tar(FILES))
    hub.push("org/archive", tmp_path / "pushed")
    environ = {"HF_ENDPOINT": hub.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    assert fetch("hf://org/archive", environ, tmp_path / "dir") == FILES


def test_tar_layers_of_a_registry_are_unpacked_and_repaired(registry: Registry, tmp_path: Path) -> None:
    repository = f"org/{uuid.uuid4().hex}"
    weights = {"m/model.safetensors": FILES["m/model.safetensors"]}
    layers = {"m": ("tar+gzip", tar_gz(weights)), "m/config.json": ("raw", b"{}"), "d": ("tar", tar({"d/a": b"a"}))}
    registry.push_model_pack(repository, "v1", layers)
    environ = {"LARDER_REGISTRIES": registry.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    uri, to = f"oci://{registry.name}/{repository}:v1", tmp_path / "dir"
    assert fetch(uri, environ, to) == {**FILES, "d/a": b"a"}
    (to / "m/model.safetensors").write_bytes(b"changed")
    (to / "m/config.json").unlink()
    assert fetch(uri, environ, to) == {**FILES, "d/a": b"a"}


def test_registry_layers_with_conflicting_files_are_refused(registry: Registry, tmp_path: Path) -> None:
    repository = f"org/{uuid.uuid4().hex}"
    registry.push_model_pack(repository, "v1", {"a": ("tar", tar({"w": b"1"})), "b": ("tar", tar({"w": b"2"}))})
    environ = {"HOME": str(tmp_path), "LARDER_REGISTRIES": registry.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"}
    error, to = io.StringIO(), tmp_path / "dir"
    assert run_fetch(f"oci://{registry.name}/{repository}:v1", to, environ, io.StringIO(), error) == 1
    assert "UnsafePath: " in error.getvalue()
    assert "the file 'w' in 'a' and the file 'w' in 'b'" in error.getvalue()
    assert [path.name for path in to.iterdir()] == [".larder"]


def test_an_archive_in_a_local_directory_is_unpacked_and_kept(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "m.zip").write_bytes(zipped(FILES))
    environ = {"LARDER_LOCAL_ROOTS": str(tmp_path / "there")}
    assert fetch(f"local://{tmp_path}/there", environ, tmp_path / "dir") == FILES
    assert (tmp_path / "there" / "m.zip").exists()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server of `tmp_path / "site"` without range support: its address, and the environment to reach it."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "site").mkdir()
    handler = functools.partial(_Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        environ = {"SSL_CERT_FILE": str(tmp_path / "ca.pem"), "LARDER_ALLOW_ADDRESSES": "127.0.0.0/8"}
        yield f"https://127.0.0.1:{server.server_port}", environ
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_an_archive_from_an_https_server_is_unpacked(site: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    address, environ = site
    (tmp_path / "site" / "m.tar.gz").write_bytes(tar_gz(FILES))
    assert fetch(f"{address}/m.tar.gz", environ, tmp_path / "dir") == FILES

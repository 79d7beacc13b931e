"""The command of a Model's Job (`models.example.com`), with its own arguments and a real server for each source.

Directories stand in for the claim and the Secret that the kubelet would mount.
"""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme

import tests.builders.models_on_claims as build
from controller.downloads.job import DownloadJobSettings
from controller.modeloperator.decide import wanted_download
from controller.modeloperator.objects import download_manifest
from controller.modeloperator.source import source_of
from rig.binaries import Binaries
from rig.git_server import GitServer
from rig.hub import Hub
from rig.ports import LOOPBACK
from rig.registry import Registry
from rig.s3 import S3
from rig.scripted_http import scripted
from rig.source_fixtures import (
    FileServer,
    GitFixture,
    HttpsFixture,
    HubFixture,
    RegistryFixture,
    S3Fixture,
    SourceFixture,
    StoredModel,
)
from shared.download_report import NEEDS_ACTION, DownloadReport, decode_report
from shared.json_object import Json
from tests.builders.disks import tmpfs

FILES = {"config.json": b"{}", "sub/model.safetensors": os.urandom(2**20)}
KINDS = ("huggingFace", "s3", "gitlfs", "oci", "url")


@dataclass(frozen=True)
class Sources:
    """A server for each kind of source, and the environment variables with their addresses."""

    fixtures: Mapping[str, SourceFixture]
    environ: Mapping[str, str]


@pytest.fixture
def sources(tmp_path: Path, hub: Hub, s3: S3, registry: Registry) -> Iterator[Sources]:
    authority, tls, web = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), FileServer()
    authority.issue_cert(LOOPBACK).configure_cert(tls)
    bundle, git = tmp_path / "ca.pem", GitServer(tmp_path / "git")
    authority.cert_pem.write_to_path(str(bundle))
    with ExitStack() as stack:
        git.url = stack.enter_context(scripted(git.answer, tls)).url
        files = stack.enter_context(scripted(web.answer, tls))
        fixtures: dict[str, SourceFixture] = {
            "huggingFace": HubFixture(hub, tmp_path),
            "s3": S3Fixture(s3),
            "gitlfs": GitFixture(bundle, git),
            "oci": RegistryFixture(registry),
            "url": HttpsFixture(bundle, files.url, web),
        }
        environ = {
            "HF_ENDPOINT": hub.endpoint,
            "AWS_ENDPOINT_URL": s3.endpoint,
            "LARDER_REGISTRIES": registry.endpoint,
            "LARDER_ALLOW_ADDRESSES": LOOPBACK,
            "SSL_CERT_FILE": str(bundle),
        }
        yield Sources(fixtures, environ)


def source_for(kind: str, stored: StoredModel) -> Json:
    """Return the field of `spec.source` for a stored model."""
    scheme, _, rest = stored.uri.partition("://")
    bucket, _, key = rest.partition("/")
    fields = {
        "huggingFace": {"repoId": rest},
        "s3": {"bucket": bucket, "key": key},
        "gitlfs": {"repoUrl": f"{scheme.removeprefix('git+')}://{rest}"},
        "oci": {"ref": f"{rest}:latest"},
        "url": {"url": stored.uri},
    }
    return {kind: fields[kind]}


@dataclass(frozen=True)
class JobOfModel:
    """The download Job of a Model, without a cluster."""

    source: Json
    claim: Path
    secret: Path
    environ: Mapping[str, str]

    @property
    def report(self) -> DownloadReport:
        """Return the termination message."""
        return decode_report((self.secret.parent / "report").read_text())

    def run(self) -> int:
        """Run the command of its container, and return the exit code."""
        model = build.model(source=self.source)
        download, settings = wanted_download(build.view(model, claim=build.claim())), DownloadJobSettings("agent:1")
        body = download_manifest(model, download, source_of(model.spec), settings)
        (container,) = body["spec"]["template"]["spec"]["containers"]
        here = {"--to=/models": f"--to={self.claim}", "--credentials=/credentials": f"--credentials={self.secret}"}
        arguments = [here.get(argument, argument) for argument in container["args"]]
        argv = [sys.executable, *container["command"][1:], f"--report={self.secret.parent / 'report'}"]
        environ = {"PATH": os.environ["PATH"], **self.environ}
        return subprocess.run([*argv, "--progress-port=0", *arguments], env=environ, check=False).returncode  # noqa: S603 - ours

    def write_secret(self, values: Mapping[str, str]) -> None:
        """Mount a Secret of these values."""
        self.secret.mkdir(exist_ok=True)
        for key, value in values.items():
            (self.secret / key).write_text(value)


def job(tmp_path: Path, sources: Sources, source: Json, claim: str = "claim") -> JobOfModel:
    made = JobOfModel(source, tmp_path / claim, tmp_path / "secret", sources.environ)
    made.claim.mkdir(exist_ok=True)
    made.write_secret({})
    return made


def files_on(claim: Path) -> dict[str, bytes]:
    files = (path for path in claim.rglob("*") if path.is_file())
    found = {str(path.relative_to(claim)): path.read_bytes() for path in files}
    return {path: body for path, body in found.items() if not path.startswith(".")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_each_source_are_at_the_root_of_the_claim(kind: str, sources: Sources, tmp_path: Path) -> None:
    stored = sources.fixtures[kind].store_model(FILES)
    download = job(tmp_path, sources, source_for(kind, stored))
    download.write_secret(stored.good.values if kind == "s3" else {})
    assert download.run() == 0
    assert files_on(download.claim) == ({"model": FILES["config.json"]} if kind == "url" else FILES)
    assert download.report.revision


def test_the_endpoint_of_a_model_takes_the_place_of_the_administrators(
    binaries: Binaries, s3: S3, sources: Sources, tmp_path: Path
) -> None:
    """Both servers have a bucket of that name, with different files."""
    authority, bucket = trustme.CA(), "shared-name"
    authority.cert_pem.write_to_path(str(tmp_path / "s3-ca.pem"))
    authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "s3.pem"))
    s3.put(bucket, "m/config.json", b"of the administrator's server")
    with S3(binaries, tmp_path / "s3", certificate=tmp_path / "s3.pem") as named:
        (named.path(bucket) / "m").mkdir(parents=True)
        named.path(bucket, "m/config.json").write_bytes(b"{}")
        source = {"s3": {"bucket": bucket, "key": "m", "endpoint": named.endpoint}}
        environ = {**sources.environ, "AWS_CA_BUNDLE": str(tmp_path / "s3-ca.pem")}
        download = replace(job(tmp_path, sources, source), environ=environ)
        download.write_secret({"AWS_ACCESS_KEY_ID": named.access_key, "AWS_SECRET_ACCESS_KEY": named.secret_key})
        assert download.run() == 0
    assert files_on(download.claim) == {"config.json": b"{}"}


@pytest.mark.parametrize("kind", ["huggingFace", "s3", "gitlfs"])
def test_wrong_credentials_end_the_job_at_once_and_right_ones_continue(
    kind: str, sources: Sources, tmp_path: Path
) -> None:
    stored = sources.fixtures[kind].store_model(FILES, private=True)
    download = job(tmp_path, sources, source_for(kind, stored))
    download.write_secret(stored.wrong.values)
    assert download.run() == NEEDS_ACTION
    assert download.report.reason == "AuthDenied"
    download.write_secret(stored.good.values)
    assert download.run() == 0
    assert files_on(download.claim) == FILES


def test_a_docker_config_names_the_token_service_of_its_registry(
    sources: Sources, registry: Registry, tmp_path: Path
) -> None:
    """The kubelet mounts the Secret without its annotation for hosts; `auths` names the hosts instead."""
    stored = sources.fixtures["oci"].store_model(FILES, private=True)
    download = job(tmp_path, sources, source_for("oci", stored))
    key, service = ".dockerconfigjson", registry.token_service.url.removeprefix("http://")
    download.write_secret({key: stored.good.values[key]})
    assert download.run() == NEEDS_ACTION
    assert f"add an entry for {service} to auths" in download.report.message
    config = json.loads(stored.good.values[key])
    (account,) = config["auths"].values()
    download.write_secret({key: json.dumps({"auths": config["auths"] | {service: account}})})
    assert download.run() == 0
    assert files_on(download.claim) == FILES


def test_a_full_volume_is_reported_with_the_numbers(sources: Sources, tmp_path: Path) -> None:
    large = {"config.json": b"{}", "model.safetensors": os.urandom(12 * 2**20)}
    stored = sources.fixtures["huggingFace"].store_model(large)
    with tmpfs(tmp_path / "small", "8m"):
        download = job(tmp_path, sources, source_for("huggingFace", stored), "small")
        assert download.run() != 0
    assert download.report.reason == "InsufficientStorage"
    assert "12.0 MiB" in download.report.message

"""The URI, settings and keys that a download gets from a Model's source."""

from typing import Any

import msgspec
import pytest

from controller.modeloperator.source import source_of, wanted_digest
from shared.api.model import ModelSpec
from shared.errors import InvalidURI
from shared.uri import model_uri
from tests.builders.models_on_claims import SPEC


def spec(**source: Any) -> ModelSpec:
    return msgspec.convert(SPEC | {"source": source}, ModelSpec)


def test_a_hugging_face_repository_uses_the_hub_token() -> None:
    found = source_of(spec(huggingFace={"repoId": "meta-llama/Llama-3.1-8B-Instruct", "revision": "v1"}))
    assert (str(found.uri), found.keys) == ("hf://meta-llama/Llama-3.1-8B-Instruct@v1", ("HF_TOKEN",))


def test_the_file_behind_a_url_is_named_model() -> None:
    found = source_of(spec(url={"url": "https://host/a/weights.tar.gz"}))
    assert (str(found.uri), found.arguments) == ("https://host/a/weights.tar.gz", ("--file-name=model",))
    assert found.keys == ()


def test_a_bucket_may_have_a_region_and_an_endpoint() -> None:
    found = source_of(spec(s3={"bucket": "models", "key": "llama/", "region": "eu-west-1"}))
    assert str(found.uri) == "s3://models@eu-west-1/llama"
    assert "AWS_SECRET_ACCESS_KEY" in found.keys
    own = source_of(spec(s3={"bucket": "models", "key": "llama", "endpoint": "https://minio.example.com:9000"}))
    assert own.arguments == ("--endpoint=https://minio.example.com:9000",)
    assert own.hosts == ("minio.example.com:9000",)


@pytest.mark.parametrize(("url", "host"), [("https://Git.example.com/a/b.git", "git.example.com"),
                                           ("https://git.example.com:8443/a/b/", "git.example.com:8443")])  # fmt: skip
def test_a_git_repository_takes_a_token_or_a_login_for_its_own_host_alone(url: str, host: str) -> None:
    found = source_of(spec(gitlfs={"repoUrl": url, "revision": "v1"}))
    assert (found.keys, found.hosts) == (("token", "username", "password"), (host,))
    assert str(found.uri).endswith("?ref=v1")


def test_a_plugin_source_needs_the_scheme_of_an_installed_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_uri, "plugin_schemes", lambda: frozenset(["model-registry"]))
    found = source_of(spec(plugin={"uri": "model-registry://llama/3.1"}))
    assert (str(found.uri), found.keys) == ("model-registry://llama/3.1", ("token", "username", "password"))
    with pytest.raises(InvalidURI, match="hf://a/b needs no plugin; write it in huggingFace"):
        source_of(spec(plugin={"uri": "hf://a/b"}))
    with pytest.raises(InvalidURI, match="no installed source serves swift://"):
        source_of(spec(plugin={"uri": "swift://a/b"}))


def test_an_oci_reference_becomes_an_oci_uri() -> None:
    assert str(source_of(spec(oci={"ref": "ghcr.io/org/model:1"})).uri) == "oci://ghcr.io/org/model:1"


@pytest.mark.parametrize(
    "source",
    [
        {"url": {"url": "http://host/model"}},
        {"s3": {"bucket": "a@evil:9000", "key": "x"}},
        {"s3": {"bucket": "models", "key": "x", "endpoint": "http://minio"}},
        {"s3": {"bucket": "models", "key": "x", "endpoint": "https://minio/models"}},
        {"huggingFace": {"repoId": "a/..", "revision": "main"}},
        {"huggingFace": {"repoId": "a/b", "revision": "--upload"}},
        {"gitlfs": {"repoUrl": "http://host/r"}},
        {},
    ],
)
def test_an_invalid_source_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(InvalidURI):
        source_of(spec(**source))


def test_a_change_of_source_or_version_requires_a_new_download() -> None:
    one = spec(huggingFace={"repoId": "a/b"})
    assert wanted_digest(one) == wanted_digest(spec(huggingFace={"repoId": "a/b", "revision": "main"}))
    assert wanted_digest(one) != wanted_digest(spec(huggingFace={"repoId": "a/b", "revision": "v1"}))
    assert wanted_digest(one) != wanted_digest(msgspec.structs.replace(one, version="other"))

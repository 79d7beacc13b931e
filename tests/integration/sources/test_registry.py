import hashlib
import json
import uuid
from collections.abc import Callable

import pytest

from rig.registry import Registry
from shared.errors import AuthDenied, InvalidURI, RevisionNotFound, SourceNotFound
from shared.manifest import File
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.settings import SourceSettings
from tests.integration.sources.conftest import OpenWith
from tests.readers.sources import drain

Open = Callable[..., Source]
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture
def repository() -> str:
    return f"org/{uuid.uuid4().hex}"


@pytest.fixture
def open_uri(registry: Registry, open_with: OpenWith) -> Open:
    settings = SourceSettings(registries=(registry.endpoint,), allow_addresses=("127.0.0.1",))

    def make(rest: str, credentials: Credentials = ANONYMOUS) -> Source:
        return open_with(f"oci://{registry.name}/{rest}", credentials, settings)

    return make


def test_a_tag_is_pinned_to_its_digest(registry: Registry, repository: str, open_uri: Open) -> None:
    first = registry.push(repository, "v1", {"w": b"one"})
    manifest = open_uri(f"{repository}:v1").resolve()
    second = registry.push(repository, "v1", {"w": b"two"})
    assert (manifest.uri, manifest.revision) == (f"oci://{registry.name}/{repository}@{first}", first[7:])
    pinned = open_uri(f"{repository}@{first}")
    assert drain(pinned, pinned.resolve().files[0]) == b"one"
    assert open_uri(f"{repository}:v1").resolve().revision == second[7:]


def test_a_model_pack_may_list_one_blob_under_two_paths(registry: Registry, repository: str, open_uri: Open) -> None:
    blob = registry.push_blob(repository, b"weights", "application/vnd.cncf.model.weight.v1.raw")
    layers = [blob | {"annotations": {"org.cncf.model.filepath": path}} for path in ("a/w", "b/w")]
    registry.push_manifest(repository, "v1", layers, artifactType="application/vnd.cncf.model.manifest.v1+json")
    source = open_uri(f"{repository}:v1")
    files = source.resolve().files
    assert [(f.path, drain(source, f)) for f in files] == [("a/w", b"weights"), ("b/w", b"weights")]


def test_tar_layers_are_listed_as_archives_with_their_digests(
    registry: Registry, repository: str, open_uri: Open
) -> None:
    layers = {"weights": ("tar", b"tar"), "code/": ("tar+gzip", b"gzip"), "config.json": ("raw", b"{}")}
    registry.push_model_pack(repository, "v1", layers)
    source = open_uri(f"{repository}:v1")
    files = source.resolve().files
    assert [(f.path, f.archive) for f in files] == [("code", "tar.gz"), ("config.json", ""), ("weights", "tar")]
    assert [drain(source, f) for f in files] == [b"gzip", b"{}", b"tar"]
    assert all(f.digest == f"sha256:{hashlib.sha256(drain(source, f)).hexdigest()}" for f in files)


def test_a_layer_compressed_with_zstd_is_refused(registry: Registry, repository: str, open_uri: Open) -> None:
    registry.push_model_pack(repository, "v1", {"w": ("tar+zstd", b"x")})
    with pytest.raises(
        InvalidURI, match=r"compressed with zstd .* push it as raw files, as a tar, or compressed with gzip"
    ):
        open_uri(f"{repository}:v1").resolve()


def test_an_index_with_one_manifest_is_followed_and_one_with_two_is_refused(
    registry: Registry, repository: str, open_uri: Open
) -> None:
    entries = []
    for number in (1, 2):
        digest = registry.push(repository, f"m{number}", {"w": b"%d" % number})
        size = len(registry.client.get(
            f"/v2/{repository}/manifests/{digest}",
            headers={"Authorization": f"Bearer {registry.tokens.token(repository, ['pull'])}"},
        ).content)  # fmt: skip
        entries.append({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size})
    for tag, of in (("one", entries[:1]), ("two", entries)):
        body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": of}).encode()
        registry.put(repository, tag, body, INDEX)
    source = open_uri(f"{repository}:one")
    assert drain(source, source.resolve().files[0]) == b"1"
    with pytest.raises(InvalidURI, match="index of 2"):
        open_uri(f"{repository}:two").resolve()


def test_a_missing_tag_repository_or_blob_is_reported_as_not_found(
    registry: Registry, repository: str, open_uri: Open
) -> None:
    registry.push(repository, "v1", {"w": b"one"})
    with pytest.raises(RevisionNotFound, match="v2"):
        open_uri(f"{repository}:v2").resolve()
    with pytest.raises(SourceNotFound):
        open_uri(f"{repository}-not:v1").resolve()
    with pytest.raises(SourceNotFound):
        open_uri(f"{repository}:v1").open(File("w", 1, "sha256:" + "0" * 64))


def test_an_image_is_not_a_model(registry: Registry, repository: str, open_uri: Open) -> None:
    layer = registry.push_blob(repository, b"rootfs", "application/vnd.oci.image.layer.v1.tar+gzip")
    registry.push_manifest(repository, "v1", [layer])
    with pytest.raises(InvalidURI, match="without a file name"):
        open_uri(f"{repository}:v1").resolve()


def test_a_private_repository_is_refused_with_the_name_of_the_key_it_needs(
    registry: Registry, repository: str, open_uri: Open
) -> None:
    registry.push(repository, "v1", {"w": b"one"})
    registry.tokens.private.add(repository)
    with pytest.raises(AuthDenied, match=r"name a Secret with \.dockerconfigjson"):
        open_uri(f"{repository}:v1").resolve()
    other = Credentials({".dockerconfigjson": registry.tokens.docker_config("other.test")})
    with pytest.raises(AuthDenied, match=r"name a Secret"):
        open_uri(f"{repository}:v1", other).resolve()

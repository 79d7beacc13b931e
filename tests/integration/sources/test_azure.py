import uuid
from collections.abc import Callable

import pytest

from rig.azure import Azure
from shared.errors import AuthDenied, SourceChanged, SourceNotFound
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.settings import SourceSettings
from tests.integration.sources.conftest import OpenWith
from tests.readers.sources import drain

Open = Callable[..., Source]


@pytest.fixture
def container(azure: Azure) -> str:
    name = f"container-{uuid.uuid4().hex}"
    azure.make_container(name)
    return name


@pytest.fixture
def open_uri(azure: Azure, open_with: OpenWith) -> Open:
    def make(rest: str, credentials: Credentials | None = None) -> Source:
        own = Credentials({"AZURE_STORAGE_KEY": azure.key}) if credentials is None else credentials
        return open_with(f"az://{azure.account}/{rest}", own, SourceSettings(azure_endpoint=azure.endpoint))

    return make


def test_lists_only_blobs_below_the_prefix(azure: Azure, container: str, open_uri: Open) -> None:
    for name in ("m/a/x", "m/a/deep/y", "m/a/empty", "m/a-hf/x", "m/ab/x", "m/a.txt", "m/x"):
        azure.put(container, name, b"" if name.endswith("empty") else name.encode())
    azure.put(container, "m/a/deep", b"", hdi_isfolder="true")
    azure.put(container, "m/a", b"", hdi_isfolder="true")
    manifest = open_uri(f"{container}/m/a").resolve()
    assert [(f.path, f.size) for f in manifest.files] == [("deep/y", 10), ("empty", 0), ("x", 5)]
    assert all(f.etag for f in manifest.files)


def test_a_uri_of_a_blob_lists_that_blob_alone(azure: Azure, container: str, open_uri: Open) -> None:
    azure.put(container, "m/a.bin", b"exact")
    azure.put(container, "m/a.bin-more", b"beside")
    source = open_uri(f"{container}/m/a.bin")
    manifest = source.resolve()
    assert [f.path for f in manifest.files] == ["a.bin"]
    assert drain(source, manifest.files[0], 1, 3) == b"xac"


def test_a_file_with_the_same_name_as_its_prefix_is_found(azure: Azure, container: str, open_uri: Open) -> None:
    azure.put(container, "m/a/a", b"below")
    source = open_uri(f"{container}/m/a")
    assert drain(source, source.resolve().files[0]) == b"below"


def test_a_private_container_is_read_with_a_shared_access_signature(
    azure: Azure, container: str, open_uri: Open
) -> None:
    azure.put(container, "m/x", b"private")
    source = open_uri(f"{container}/m", Credentials({"AZURE_STORAGE_SAS_TOKEN": azure.sas()}))
    assert drain(source, source.resolve().files[0], 2, 3) == b"iva"
    wrong = Credentials({"AZURE_STORAGE_SAS_TOKEN": azure.sas("w")})
    with pytest.raises(AuthDenied, match="Authorization"):
        open_uri(f"{container}/m", wrong).resolve()


def test_a_public_container_is_read_without_keys(azure: Azure, open_uri: Open) -> None:
    name = f"container-{uuid.uuid4().hex}"
    azure.make_container(name, public="container")
    azure.put(name, "m/x", b"public")
    source = open_uri(f"{name}/m", ANONYMOUS)
    assert drain(source, source.resolve().files[0]) == b"public"


def test_an_overwritten_blob_is_reported_as_changed(azure: Azure, container: str, open_uri: Open) -> None:
    azure.put(container, "m/x", b"AAAA")
    source = open_uri(f"{container}/m")
    before = source.resolve()
    azure.put(container, "m/x", b"BBBB")
    with pytest.raises(SourceChanged, match=r"m/x .* changed"):
        source.open(before.files[0])


def test_a_missing_container_or_blob_is_reported_as_not_found(container: str, open_uri: Open) -> None:
    with pytest.raises(SourceNotFound, match="the container has neither"):
        open_uri(f"{container}/m").resolve()
    with pytest.raises(SourceNotFound):
        open_uri("container-that-is-not/m").resolve()

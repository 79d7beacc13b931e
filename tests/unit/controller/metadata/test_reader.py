"""Readings outside the queue: one per list of files, kept until it is written, stopped with the leadership."""

import asyncio
import base64
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from controller.metadata.reader import MetadataReader
from controller.placement.demand import Demand, Resolution
from controller.placement.demand_of_kind import cache_demand
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.sources.packed_manifests import pack
from controller.state.keys import ModelKey
from rig.scripted_http import ScriptedRequest, reply, scripted
from shared.kube.transport import Kube
from shared.manifest import File, Manifest, build_manifest
from shared.metadata.reading.termination_message import Reading
from shared.sources.port import ANONYMOUS
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.model_uri import parse_uri
from tests.builders.api_server import Objects
from tests.builders.cluster import cache
from tests.builders.model_files import safetensors

KEY = ModelKey("ClusterModelCache", "", "m")
ONE = "an identity"


class ReaderRig:
    """A reader, the readings that it reports as done, and the API server's ConfigMaps."""

    def __init__(self, kube: Kube, objects: Objects, settings: SourceSettings) -> None:
        self.objects, self.done, self.now = objects, asyncio.Queue[ModelKey](), 1000.0
        self.reader = MetadataReader(
            Secrets(kube, "ns", settings), Manifests(kube, "ns"), settings, lambda: self.now, self.done.put_nowait
        )

    def keep(self, manifest: Manifest) -> Resolution:
        packed = pack(manifest)
        body = {"metadata": {"name": "x"}, "binaryData": {"manifest.json.z": base64.b64encode(packed.body).decode()}}
        self.objects.objects[f"/api/v1/namespaces/ns/configmaps/manifest-{packed.digest}"] = body
        return Resolution(manifest.uri, manifest.revision, packed.digest, manifest.size_bytes)

    async def read(self, resolution: Resolution, secret: str = "", identity: str = ONE) -> Reading:
        self.reader.start(KEY, demand(secret), resolution, identity)
        async with asyncio.timeout(60):
            assert await self.done.get() == KEY
        found = self.reader.result_of(KEY, identity)
        assert found
        return found


def demand(secret: str = "") -> Demand:
    return replace(cache_demand("ClusterModelCache", cache("m")), secret=secret)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "model.safetensors").write_bytes(safetensors({"w": ("BF16", (10, 10))}))
    return folder


@pytest.fixture
def service(kube: Kube, objects: Objects, tmp_path: Path) -> ReaderRig:
    return ReaderRig(kube, objects, SourceSettings(local_roots=(str(tmp_path),)))


def listed(service: ReaderRig, folder: Path) -> Manifest:
    source = open_source(parse_uri(f"local://{folder}"), ANONYMOUS, service.reader.settings)
    return source.resolve()


async def test_a_result_is_kept_for_its_identity_until_it_is_recorded(service: ReaderRig, model: Path) -> None:
    reading = await service.read(service.keep(listed(service, model)))
    assert reading.metadata
    assert (reading.metadata.model_type, reading.metadata.parameters) == ("llama", 100)
    assert service.reader.result_of(KEY, "another identity") is None
    assert service.reader.result_of(KEY, ONE) == reading
    service.reader.discard(KEY)
    assert service.reader.result_of(KEY, ONE) is None


async def test_the_same_files_are_not_read_again_within_ten_minutes(service: ReaderRig, model: Path) -> None:
    resolution = service.keep(listed(service, model))
    await service.read(resolution)
    service.reader.discard(KEY)
    before = asyncio.all_tasks()
    service.reader.start(KEY, demand(), resolution, ONE)
    assert asyncio.all_tasks() == before
    await service.read(resolution, identity="another identity")
    await service.read(resolution)
    service.reader.forget(KEY)
    await service.read(resolution)
    service.now += 600
    await service.read(resolution)


async def test_a_reading_of_other_files_ends_the_one_before(service: ReaderRig, model: Path) -> None:
    resolution = service.keep(listed(service, model))
    for identity in ("first", "second"):
        service.reader.start(KEY, demand(), resolution, identity)
    assert (await service.read(resolution, identity="third")).metadata
    assert service.done.empty()
    assert service.reader.result_of(KEY, "first") is None


async def test_the_reading_of_a_deleted_model_ends(service: ReaderRig, model: Path) -> None:
    before = asyncio.all_tasks()
    service.reader.start(KEY, demand(), service.keep(listed(service, model)), ONE)
    (reading,) = asyncio.all_tasks() - before
    service.reader.forget(KEY)
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert service.done.empty()


async def test_a_file_that_changed_since_it_was_listed_is_not_read(service: ReaderRig, model: Path) -> None:
    resolution = service.keep(listed(service, model))
    (model / "config.json").write_text(json.dumps({"model_type": "another"}))
    assert (await service.read(resolution)).reason == "SourceChanged"


async def test_a_model_with_a_missing_secret_is_not_read(service: ReaderRig, model: Path) -> None:
    assert (await service.read(service.keep(listed(service, model)), secret="missing")).reason == "AuthDenied"


async def test_a_missing_manifest_or_one_of_another_revision_is_reported_as_source_changed(
    service: ReaderRig, model: Path
) -> None:
    resolution = service.keep(listed(service, model))
    other = await service.read(replace(resolution, revision="another"))
    assert (other.reason, "another revision" in other.message) == ("SourceChanged", True)
    assert (await service.read(replace(resolution, manifest="0" * 64), identity="gone")).reason == "SourceChanged"


async def test_a_reading_is_not_started_twice_and_ends_with_the_leadership(kube: Kube, objects: Objects) -> None:
    asked, answer_now = threading.Semaphore(0), threading.Event()

    def answer(_: ScriptedRequest) -> bytes:
        asked.release()
        answer_now.wait(60)
        return reply(200, b"{}")

    with scripted(answer) as hub:
        service = ReaderRig(
            kube, objects, settings_from_environ({"HF_ENDPOINT": hub.url, "LARDER_ALLOW_ADDRESSES": "127.0.0.1"})
        )
        resolution = service.keep(build_manifest("hf://o/m@c", "c", [File("config.json", 2)]))
        before = asyncio.all_tasks()
        for _ in range(3):
            service.reader.start(KEY, demand(), resolution, ONE)
        assert len(asyncio.all_tasks() - before) == 1
        assert await asyncio.to_thread(asked.acquire, timeout=60)
        await service.reader.stop()
        answer_now.set()
        assert service.reader.result_of(KEY, ONE) is None
        assert service.done.empty()
        assert not asked.acquire(blocking=False)

import base64
import random
import zlib

import pytest
from msgspec.structs import replace

from controller.sources.manifests import Manifests
from controller.sources.packed_manifests import pack, unpack
from shared.errors import NameConflict, SourceChanged, TooManyFiles, TooManyManifests
from shared.json_object import Json
from shared.kube.errors import KubeError
from shared.kube.transport import Kube
from shared.manifest import File, Manifest, build_manifest
from tests.builders.api_server import Objects

PATH = "/api/v1/namespaces/larder-system/configmaps"


@pytest.fixture
def manifests(kube: Kube) -> Manifests:
    return Manifests(kube, "larder-system")


def manifest(files: int, chance: random.Random | None = None) -> Manifest:
    noise = chance or random.Random(1)
    names = (f"f{i}" for i in range(files))
    return build_manifest(
        "hf://o/m@c", "c", [File(n, i, f"sha256:{noise.randbytes(32).hex()}") for i, n in enumerate(names)]
    )


def put(objects: Objects, found: Manifest, text: str = "") -> str:
    packed = pack(found)
    digest = packed.digest
    binary = {"manifest.json.z": text or base64.b64encode(packed.body).decode()}
    objects.objects[f"{PATH}/manifest-{digest}"] = {"metadata": {"name": "x"}, "binaryData": binary}
    return digest


def test_a_packed_list_is_unpacked_unchanged() -> None:
    found = manifest(300)
    packed = pack(found)
    assert packed.digest == found.digest
    assert unpack(base64.b64encode(packed.body).decode(), found.digest) == found.encode()


def test_a_list_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(TooManyFiles, match=r"list of 40000 files takes \d+ bytes compressed"):
        pack(manifest(40_000))


def test_a_list_that_compresses_well_but_takes_much_memory_is_refused() -> None:
    files = [File(f"{'a' * 200}/{i:05}", 1) for i in range(80_000)]
    with pytest.raises(TooManyFiles, match=r"\d{8} uncompressed"):
        pack(build_manifest("s3://bucket/prefix", "r1", files))


async def test_a_list_is_read_from_the_api_server_once(manifests: Manifests, objects: Objects) -> None:
    found = manifest(3)
    digest = put(objects, found)
    assert await manifests.find(digest) == found.encode()
    assert await manifests.find(digest) == found.encode()
    assert len(objects.asked) == 1


async def test_the_cache_of_lists_is_bounded_in_bytes(manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.sources.manifests._MAX_CACHED_BYTES", 100)
    for i in range(9):
        manifests._remember(str(i), b"x" * 40)
    assert list(manifests._cache) == ["7", "8"]
    manifests._remember("large", b"x" * 500)
    assert list(manifests._cache) == ["large"]


async def test_a_missing_list_is_resolved_again(manifests: Manifests) -> None:
    with pytest.raises(SourceChanged, match="is gone"):
        await manifests.find("e" * 64)


@pytest.mark.parametrize(
    "text",
    ["!", base64.b64encode(b"not zlib").decode(), base64.b64encode(zlib.compress(b"{}")).decode()],
    ids=["not base64", "not compressed", "other bytes"],
)
async def test_a_damaged_list_is_reported_with_the_object_to_delete(
    manifests: Manifests, objects: Objects, text: str
) -> None:
    digest = put(objects, manifest(3), text)
    with pytest.raises(SourceChanged, match=f"manifest-{digest}.*delete it"):
        await manifests.find(digest)


async def test_an_unreachable_server_is_not_reported_as_a_damaged_list(manifests: Manifests, objects: Objects) -> None:
    objects.down = True
    with pytest.raises(KubeError):
        await manifests.find("e" * 64)


def accept_posts(objects: Objects) -> None:
    def create(body: Json) -> Json:
        objects.objects[f"{PATH}/{body['metadata']['name']}"] = body
        return body

    objects.posts[PATH] = create


def selected(listing: Manifest, count: int, revision: str = "c-1") -> Manifest:
    return replace(listing, revision=revision, files=listing.files[:count], allow_pickle=False)


async def test_selections_of_one_revision_share_one_list(manifests: Manifests, objects: Objects) -> None:
    accept_posts(objects)
    listing, digests = manifest(10_000), list[str]()
    for i in range(5):
        wanted = selected(listing, 9000 + i, f"c-{i}")
        digests.append(await manifests.store(wanted, listing))
        assert digests[-1] == wanted.digest
    sizes = sorted(len(str(found["binaryData"])) for found in objects.objects.values())
    assert len(sizes) == 6
    assert sizes[-2] < 8 * 1024 < sizes[-1], "one long list, and five short parts"
    fresh = Manifests(manifests.kube, "larder-system")
    for i, digest in enumerate(digests):
        assert await fresh.find(digest) == selected(listing, 9000 + i, f"c-{i}").encode()


async def test_a_short_selection_from_a_list_too_long_to_store_is_stored(
    manifests: Manifests, objects: Objects
) -> None:
    accept_posts(objects)
    listing = manifest(40_000)
    wanted = selected(listing, 10_000)
    assert await manifests.find(await manifests.store(wanted, listing)) == wanted.encode()
    assert len(objects.objects) == 1


async def test_a_selection_whose_full_list_is_gone_must_be_resolved_again(
    manifests: Manifests, objects: Objects
) -> None:
    accept_posts(objects)
    listing = manifest(10_000)
    digest = await manifests.store(selected(listing, 9999), listing)
    del objects.objects[f"{PATH}/manifest-{listing.digest}"]
    with pytest.raises(SourceChanged, match=f"manifest-{listing.digest} is gone"):
        await manifests.find(digest)


async def test_a_foreign_object_with_the_name_of_a_list_is_a_conflict(manifests: Manifests, objects: Objects) -> None:
    found = manifest(3)
    path = f"{PATH}/manifest-{found.digest}"
    objects.refused[PATH] = 409
    objects.objects[path] = {"metadata": {"name": "x"}, "data": {"mine": "yes"}}
    with pytest.raises(NameConflict, match=f"ConfigMap manifest-{found.digest}.*delete it") as refusal:
        await manifests.store(found)
    assert refusal.value.digest == found.digest
    put(objects, found)
    assert await manifests.store(found) == found.digest


async def test_the_lists_of_a_namespace_are_bounded_in_bytes(kube: Kube, objects: Objects) -> None:
    accept_posts(objects)
    bounded = Manifests(kube, "larder-system", namespace_bytes=100_000)
    lists = [manifest(1000, random.Random(seed)) for seed in range(4)]
    for found in lists[:2]:
        await bounded.store(found, charged_to="greedy")
    with pytest.raises(
        TooManyManifests,
        match=r"namespace greedy take 89.3 KiB, and this one would add 44.6 KiB, over the limit of 97.7 KiB",
    ):
        await bounded.store(lists[2], charged_to="greedy")
    await bounded.store(lists[0], charged_to="greedy")  # it exists already
    await bounded.store(lists[2], charged_to="other")
    await bounded.store(lists[3])
    bounded.charge({lists[0].digest: ("greedy", 35_000)})
    await bounded.store(lists[1], charged_to="greedy")


async def test_a_list_written_within_the_last_minute_is_not_removed(kube: Kube, objects: Objects) -> None:
    accept_posts(objects)
    now = [1000.0]
    found, manifests = manifest(3), Manifests(kube, "larder-system", clock=lambda: now[0])
    digest = await manifests.store(found)
    now[0] += 59
    assert not await manifests.remove(digest, "uid", "1", 60)
    assert not [asked for asked in objects.asked if asked.startswith("DELETE")]
    now[0] += 2
    await manifests.remove(digest, "uid", "1", 60)
    assert [asked for asked in objects.asked if asked.startswith("DELETE")] == [f"DELETE {PATH}/manifest-{digest}"]

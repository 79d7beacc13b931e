import base64
import random
import zlib

import pytest

from controller.manifests import Manifests, pack, unpack
from shared.errors import SourceChanged, TooManyFiles
from shared.kube.errors import KubeError
from shared.kube.transport import Kube
from shared.manifest import File, Manifest, build_manifest
from tests.unit.controller.apiserver import Objects

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
    digest, packed = pack(found)
    binary = {"manifest.json.z": text or base64.b64encode(packed).decode()}
    objects.objects[f"{PATH}/manifest-{digest}"] = {"metadata": {"name": "x"}, "binaryData": binary}
    return digest


def test_what_is_packed_comes_out_again() -> None:
    found = manifest(300)
    digest, packed = pack(found)
    assert digest == found.digest
    assert unpack(base64.b64encode(packed).decode(), digest) == found.encode()


def test_a_list_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(TooManyFiles, match=r"list of 40000 files takes \d+ bytes compressed"):
        pack(manifest(40_000))


async def test_bytes_are_read_once_and_then_known(manifests: Manifests, objects: Objects) -> None:
    found = manifest(3)
    digest = put(objects, found)
    assert await manifests.find(digest) == found.encode()
    assert await manifests.find(digest) == found.encode()
    assert len(objects.asked) == 1


async def test_what_is_remembered_is_bounded(manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.manifests._MOST_RECENT_BYTES", 100)
    for i in range(9):
        manifests._remember(str(i), b"x" * 40)
    assert list(manifests._recent) == ["7", "8"]
    manifests._remember("large", b"x" * 500)
    assert list(manifests._recent) == ["large"]


async def test_one_that_is_gone_is_to_be_resolved_again(manifests: Manifests) -> None:
    with pytest.raises(SourceChanged, match="is gone"):
        await manifests.find("e" * 64)


@pytest.mark.parametrize(
    "text",
    ["!", base64.b64encode(b"not zlib").decode(), base64.b64encode(zlib.compress(b"{}")).decode()],
    ids=["no base64", "not compressed", "other bytes"],
)
async def test_one_that_is_damaged_says_what_to_delete(manifests: Manifests, objects: Objects, text: str) -> None:
    digest = put(objects, manifest(3), text)
    with pytest.raises(SourceChanged, match=f"manifest-{digest}.*delete it"):
        await manifests.find(digest)


async def test_a_server_that_does_not_answer_is_no_damage(manifests: Manifests, objects: Objects) -> None:
    objects.down = True
    with pytest.raises(KubeError):
        await manifests.find("e" * 64)

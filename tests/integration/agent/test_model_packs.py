"""ModelPacks of a real registry whose layers are tars, from their entries to their labels."""

import hashlib
import random
import uuid

import msgspec

from rig.registry import Registry
from shared.sources.settings import SourceSettings
from tests.builders.archives import tar, tar_gz
from tests.integration.agent.node_under_test import Bench, Model

WEIGHTS = random.Random(5).randbytes(2_000_000)
MEMBERS = {"model.safetensors": WEIGHTS}, {"tokenizer/vocab.json": b"{}", "tokenizer/merges.txt": b"a b"}
FILES = {"config.json": b'{"a": 1}', **MEMBERS[0], **MEMBERS[1]}
Layers = dict[str, tuple[str, bytes]]
GOOD: Layers = {
    "model.safetensors": ("tar", tar(MEMBERS[0])),
    "tokenizer": ("tar+gzip", tar_gz(MEMBERS[1])),
    "config.json": ("raw", FILES["config.json"]),
}


def add(bench: Bench, registry: Registry, layers: Layers) -> Model:
    """Push a ModelPack and offer it; the agent's settings name its registry."""
    repository = f"org/{uuid.uuid4().hex}"
    registry.push_model_pack(repository, "v1", layers)
    bench.environ["LARDER_REGISTRIES"] = registry.endpoint
    settings = SourceSettings(registries=(registry.endpoint,), allow_addresses=("127.0.0.1",))
    return bench.offer("pack", f"oci://{registry.name}/{repository}:v1", settings, FILES)


def stored(bench: Bench) -> set[str]:
    return {path.name for path in (bench.root / "blobs" / "sha256").iterdir()}


def test_a_model_pack_becomes_ready_and_can_be_repaired_adopted_and_removed(bench: Bench, registry: Registry) -> None:
    model = add(bench, registry, GOOD)
    bench.want(model.entry)
    agent = bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    assert bench.has_labels(model)
    assert stored(bench) == {hashlib.sha256(body).hexdigest() for body in FILES.values()}
    status = bench.status(model.entry)
    assert status is not None
    assert status.verified == "digest"

    bench.damage(model, "tokenizer/vocab.json").write_bytes(b"short")
    bench.wait_for(lambda: bench.count("snapshot_complete") == 2, "the repair")
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)

    agent.kill()
    bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.has_labels(model)
    assert bench.count("download_started") == 1

    bench.want(msgspec.structs.replace(model.entry, state="Absent"))
    bench.wait_phase(model, "Absent")
    assert stored(bench) == set()


def test_conflicting_layers_are_refused_with_both_named(bench: Bench, registry: Registry) -> None:
    model = add(bench, registry, GOOD | {"more": ("tar", tar({"tokenizer/vocab.json": b"x"}))})
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Failed", "UnsafePath")
    status = bench.status(model.entry)
    assert status is not None
    assert "'tokenizer/vocab.json' in 'more' and the file 'tokenizer/vocab.json' in 'tokenizer'" in status.message
    assert bench.labels() == set()
    assert not bench.snapshot(model).exists()

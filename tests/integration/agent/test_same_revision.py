"""Another source with the same revision: a pod that mounts the snapshot keeps its files."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from shared.manifest import Manifest
from shared.paths import COMPLETED
from tests.integration.agent.node_under_test import Bench, Model

FILES = {"config.json": b"{}", "onnx/model.onnx": b"weights" * 1000}


@contextmanager
def mounted(bench: Bench, model: Model) -> Iterator[int]:
    """Yield a descriptor of the snapshot's directory, which leads where a bind mount would."""
    descriptor = os.open(bench.snapshot(model), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(directory: int) -> list[str]:
    """Return the names in an open directory."""
    return os.listdir(directory)


def at_another_source(bench: Bench, model: Model, files: Mapping[str, bytes]) -> Model:
    """Return the model with the same id and revision, but from another repository with these files."""
    other = bench.add_model("mirror", files)
    manifest = Manifest(other.manifest.uri, model.manifest.revision, other.manifest.files)
    entry = msgspec.structs.replace(model.entry, uri=manifest.uri, manifest=bench.controller.offer(manifest))
    return Model(entry, manifest, files)


def has_mark(bench: Bench, model: Model) -> bool:
    """Return whether the snapshot is marked complete for the model's manifest."""
    return model.entry.manifest.encode() in (bench.snapshot(model) / COMPLETED).read_bytes()


def ready_model(bench: Bench) -> Model:
    """Start an agent, and return a model in use that it has downloaded."""
    model = bench.add_model("llama", FILES, in_use=True)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    return model


def test_a_mirror_with_the_same_files_leaves_the_directory_in_its_place(bench: Bench) -> None:
    model = ready_model(bench)
    with mounted(bench, model) as directory:
        mirrored = at_another_source(bench, model, FILES)
        bench.want(mirrored.entry)
        bench.wait_for(lambda: has_mark(bench, mirrored), "the new mark")
        bench.wait_phase(mirrored, "Ready")
        assert set(names_in(directory)) == {"config.json", "onnx", COMPLETED}
        assert os.path.samestat(os.fstat(directory), bench.snapshot(model).stat())
    assert bench.is_complete(mirrored)
    assert bench.has_labels(mirrored)


def test_damaged_files_are_repaired_in_place_from_a_mirror(bench: Bench) -> None:
    model = ready_model(bench)
    bench.agents[-1].stop()
    bench.damage(model, "config.json").unlink()
    with mounted(bench, model) as directory:
        mirrored = at_another_source(bench, model, FILES)
        bench.want(mirrored.entry)
        bench.start()
        bench.wait_for(lambda: has_mark(bench, mirrored) and bench.is_complete(mirrored), "the repair")
        assert os.path.samestat(os.fstat(directory), bench.snapshot(model).stat())


def test_other_files_of_the_same_revision_wait_until_no_pod_uses_the_old_ones(bench: Bench) -> None:
    model = ready_model(bench)
    with mounted(bench, model) as directory:
        changed = at_another_source(bench, model, {"config.json": b'{"other": 1}'})
        bench.want(changed.entry)
        bench.wait_phase(changed, "Repairing", "FilesInUse")
        assert bench.is_complete(model)
        assert bench.has_labels(model)
        assert set(names_in(directory)) == {"config.json", "onnx", COMPLETED}
    bench.want(msgspec.structs.replace(changed.entry, in_use=False))
    bench.wait_phase(changed, "Ready")
    assert bench.is_complete(changed)
    assert not (bench.snapshot(model) / "onnx").exists()

"""What tenants write into their objects cannot fill the memory of those who watch them."""

from typing import Any

import msgspec
import pytest

from controller.metadata.fill import written_fields
from shared.api.base_model import BaseModel, BaseModelSpec
from shared.api.core import PersistentVolumeClaim, Pod
from shared.api.model_cache import ModelCache
from shared.kube.objects import MAX_ENTRIES, Object

URI = {"storageUri": "hf://org/llama"}
KINDS: list[tuple[type[Object], Any]] = [
    (Pod, {}), (PersistentVolumeClaim, {}), (BaseModel, {"storage": URI}), (ModelCache, URI),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec"), KINDS)
@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_thousands_of_labels_or_annotations_are_not_kept(kind: type[Object], spec: Any, part: str) -> None:
    def kept(count: int) -> int:
        metadata = {"name": "a", "namespace": "team", part: {f"k{n}": "" for n in range(count)}}
        return len(getattr(msgspec.convert({"metadata": metadata, "spec": spec}, kind).metadata, part))

    assert (kept(MAX_ENTRIES), kept(MAX_ENTRIES + 1)) == (MAX_ENTRIES, 0)


@pytest.mark.parametrize(("kind", "spec"), KINDS)
def test_thousands_of_owners_are_not_kept(kind: type[Object], spec: Any) -> None:
    metadata = {"name": "a", "namespace": "team", "ownerReferences": [{"uid": str(n)} for n in range(1000)]}
    assert msgspec.convert({"metadata": metadata, "spec": spec}, kind).metadata.owner_references == []


def test_fields_of_a_base_model_that_nothing_reads_are_not_kept() -> None:
    written = {"modelConfiguration": {"layers": [[]] * 1000}, "additionalMetadata": {"a": "b"}}
    spec = msgspec.convert({"storage": URI, **written}, BaseModelSpec)
    assert (spec.model_configuration, spec.additional_metadata) == (None, {})


def test_a_long_pipeline_is_not_kept_but_counts_as_written_by_the_user() -> None:
    pipeline = {f"part-{n}": {"name": "x" * 20} for n in range(1000)}
    spec = msgspec.convert({"storage": URI, "diffusionPipeline": pipeline}, BaseModelSpec)
    assert len(msgspec.json.encode(spec.diffusion_pipeline)) < 100
    assert "diffusionPipeline" in written_fields(spec)


def test_only_the_storage_that_a_claim_requests_is_kept() -> None:
    requests = {"storage": "1Gi"} | {f"example.org/{n}": "1" for n in range(1000)}
    claim = {"metadata": {"name": "a"}, "spec": {"resources": {"requests": requests}}}
    found = msgspec.convert(claim, PersistentVolumeClaim)
    assert (found.requested, len(found.spec.resources.requests)) == ("1Gi", 1)

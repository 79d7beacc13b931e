"""Warnings about caches that can never fit on their nodes."""

from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.handlers import review_object
from controller.admission.review import AdmissionRequest, GroupVersionKind
from controller.admission.rules.cluster_model_caches import capacity_warnings, size_warnings
from controller.admission.settings import AdmissionSettings
from tests.builders.cluster import group

GIB = 2**30
LIMITS: dict[str, int | str] = {"small": "1Gi", "large": 8 * GIB, "odd": "a lot"}


def cache(size: object = None, resolved: int = 0, **spec: Any) -> dict[str, Any]:
    fields = {"storageUri": "hf://org/m", "nodeGroup": "small"} | ({"modelSize": size} if size else {}) | spec
    return {"metadata": {"name": "m"}, "spec": fields, "status": {"size": resolved} if resolved else {}}


@pytest.mark.parametrize(
    ("written", "warned"),
    [
        (cache(), 0),
        (cache("1Gi"), 0),
        (cache(GIB), 0),
        (cache(GIB + 1), 1),
        (cache("2Gi"), 1),
        (cache("2Gi", nodeGroup="large"), 0),
        (cache("2Gi", nodeGroups=["large"]), 1),
        (cache("20Gi", nodeGroups=["large"]), 2),
        (cache("1Mi", resolved=2 * GIB), 1),
        (cache("20Gi", resolved=1000), 0),
        (cache("20Gi", nodeGroup="unknown"), 0),
        (cache("20Gi", nodeGroup="odd"), 0),
    ],
)
def test_each_group_that_is_too_small_is_reported(written: dict[str, Any], warned: int) -> None:
    assert len(capacity_warnings(written, LIMITS)) == warned


def test_the_warning_states_the_sizes_and_where_they_come_from() -> None:
    (guess,) = capacity_warnings(cache("2Gi"), LIMITS)
    assert "2.0 GiB (spec.modelSize)" in guess
    assert "ModelCacheNodeGroup small allows 1.0 GiB per node" in guess
    (known,) = capacity_warnings(cache("1Mi", resolved=3 * GIB), LIMITS)
    assert "3.0 GiB (status.size)" in known


@pytest.mark.parametrize(
    ("written", "warned"),
    [(cache(), 0), (cache("2Gi"), 0), (cache("2Gi", resolved=2 * GIB), 0), (cache("1Gi", resolved=2 * GIB), 1)],
)
def test_a_size_that_is_known_to_be_too_small_is_reported(written: dict[str, Any], warned: int) -> None:
    assert len(size_warnings(written)) == warned


async def test_a_write_is_allowed_with_the_capacity_warning() -> None:
    catalog = MemoryCatalog(groups={"small": group("small", {}, storage_limit="1Gi")})

    async def answered(written: dict[str, Any]) -> list[str]:
        kind = GroupVersionKind(kind="ClusterModelCache")
        review = AdmissionRequest(uid="u", operation="CREATE", kind=kind, name="m", object=written)
        return await review_object(review, catalog, AdmissionSettings())

    (warning,) = await answered(cache("2Gi"))
    assert "raise storageLimit" in warning
    assert await answered(cache()) == []

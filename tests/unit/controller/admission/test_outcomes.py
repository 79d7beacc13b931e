"""The outcomes of reviews that the endpoints report in metrics."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from controller.admission.callers import Callers
from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.server import OUTCOMES, admission_router, path_with
from controller.admission.settings import AdmissionSettings
from rig.larder.programs import ADMISSION_KEY
from rig.pods import base_model_pod
from shared.errors import Unreachable
from tests.builders.reviews import admission_review


class BrokenCatalog(MemoryCatalog):
    """A catalog whose live reads fail."""

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        raise Unreachable(f"{kind} {namespace} {name}: connection reset")

    async def group_names(self, wanted: Collection[str]) -> Sequence[str]:
        raise KeyError(wanted)


CACHE = {"metadata": {"name": "c"}, "spec": {"storageUri": "s3://bucket/m", "nodeGroup": "g"}}
GOOD = admission_review("Pod", "CREATE", namespace="default", object=base_model_pod("p", "llama"))
REFUSED = admission_review("Pod", "CREATE", namespace="default", object=base_model_pod("p", "none"))
UNREAD = admission_review("ClusterBaseModel", "DELETE", name="x", oldObject={})
BROKEN = admission_review("ClusterModelCache", "CREATE", object=CACHE)


@pytest.mark.parametrize(
    ("path", "body", "outcome"),
    [
        ("/mutate-pods", GOOD, "allowed"),
        ("/mutate-pods", REFUSED, "denied"),
        ("/mutate-pods", {}, "failed"),
        ("/validate", GOOD, "allowed"),
        ("/validate", UNREAD, "failed"),
        ("/validate", BROKEN, "failed"),
    ],
)
async def test_each_review_is_reported_with_its_outcome(
    catalog: MemoryCatalog, path: str, body: dict[str, Any], outcome: str
) -> None:
    reported = list[tuple[str, str, float]]()
    app, broken = FastAPI(), BrokenCatalog(base_models=catalog.base_models)
    callers = Callers(lambda: (ADMISSION_KEY,))
    app.include_router(admission_router(broken, AdmissionSettings(), callers, lambda *review: reported.append(review)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://larder") as client:
        await client.post(path_with(ADMISSION_KEY, path), content=json.dumps(body))
    ((where, how, took_s),) = reported
    assert (where, how) == (path, outcome)
    assert took_s > 0
    assert how in OUTCOMES

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.manager.event_recorder import EventRecorder
from shared.api.kinds import CLUSTER_MODEL_CACHE
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.cluster import meta

PATH = "/api/v1/namespaces/default/events"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.fixture
def written(objects: Objects) -> list[dict[str, Any]]:
    """Every Event that is posted to the namespace of cluster-scoped objects."""
    posted: list[dict[str, Any]] = []

    def keep(body: dict[str, Any]) -> dict[str, Any]:
        posted.append(body)
        return body

    objects.posts[PATH] = keep
    return posted


@pytest.mark.parametrize("name", ["m", "a" * 199 + "-b" + "c" * 50, "a" * 199 + ".b"])
async def test_an_event_names_its_object(kube: Kube, written: list[dict[str, Any]], name: str) -> None:
    events = EventRecorder(kube, lambda: datetime(2026, 6, 1, tzinfo=UTC))
    await events.record(CLUSTER_MODEL_CACHE, meta(name), "Stocked", "x" * 5000, warn=False)
    (event,) = written
    assert event["involvedObject"]["name"] == name
    assert (event["reason"], event["type"], event["firstTimestamp"]) == ("Stocked", "Normal", "2026-06-01T00:00:00Z")
    assert len(event["message"]) == 1000
    assert _NAME.fullmatch(event["metadata"]["name"])
    assert len(event["metadata"]["name"]) <= 253


async def test_a_lost_event_stops_nothing(kube: Kube, objects: Objects) -> None:
    objects.down = True
    await EventRecorder(kube, lambda: datetime.now(UTC)).record(
        CLUSTER_MODEL_CACHE, meta("m"), "Failed", "x", warn=True
    )
    assert objects.asked == ["POST /api/v1/namespaces/default/events"]

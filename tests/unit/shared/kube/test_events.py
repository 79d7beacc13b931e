"""Events as both programs write them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shared.kube.events import EventSubject, post_event
from tests.builders.api_server import Objects, serving

MOMENT = datetime(2026, 6, 1, tzinfo=UTC)


async def test_an_event_on_a_node_is_in_the_namespace_default_and_names_its_host(tmp_path: Path) -> None:
    objects = Objects()
    posted = list[dict[str, Any]]()

    def keep(body: dict[str, Any]) -> dict[str, Any]:
        posted.append(body)
        return body

    objects.posts["/api/v1/namespaces/default/events"] = keep
    node, source = EventSubject("v1", "Node", "", "n1", "n1"), {"component": "larder-dra", "host": "n1"}
    async with serving(objects, tmp_path) as kube:
        for message in ("no store", "no store", "no socket" * 1000):
            await post_event(kube, node, "ModelDevicesNotPublished", message, warn=True, source=source, moment=MOMENT)
    first, again, other = posted
    assert (first["type"], first["metadata"]["namespace"], first["source"]) == ("Warning", "default", source)
    about = first["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("Node", "n1", "n1")
    assert first["metadata"]["name"] == again["metadata"]["name"] != other["metadata"]["name"]
    assert len(other["message"]) == 1000

"""Describes pods that were not placed on a node in time."""

from collections.abc import Awaitable, Callable, Iterator

from shared.json_object import Json

Get = Callable[[str], Awaitable[Json]]
_NAMESPACE = "/api/v1/namespaces/default"
_MAX_SHOWN = 20


async def describe_unplaced(get: Get, names: list[str]) -> str:
    """Return a paragraph per pod, of the first 20, as the API server has them now."""
    found = [f"{len(names)} pods were not seen on a node:"]
    for name in names[:_MAX_SHOWN]:
        pod = await get(f"{_NAMESPACE}/pods/{name}")
        events = await get(f"{_NAMESPACE}/events?fieldSelector=involvedObject.name={name}")
        found += _lines(name, pod, events.get("items", []))
    return "\n".join(found) + "\n"


def _lines(name: str, pod: Json, events: list[Json]) -> Iterator[str]:
    if "spec" not in pod:
        yield f"  {name}: {pod.get('message', pod)}"
        return
    place = pod["spec"].get("nodeName")
    yield f"  {name}: " + (f"on {place}, which the watch of the bench did not bring" if place else "on no node")
    for each in pod["status"].get("conditions", []):
        yield f"    {each['type']}={each['status']}: {each.get('reason', '')} {each.get('message', '')}"
    for each in events:
        yield f"    {each.get('count') or 1} x {each.get('reason')}: {each.get('message')}"

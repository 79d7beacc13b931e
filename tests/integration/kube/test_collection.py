"""Lists of the real API server."""

from shared.kube.collection import list_metadata, list_objects
from shared.kube.edit import create_if_missing
from shared.kube.objects import Object
from shared.kube.transport import Kube


async def test_an_empty_list_is_decoded(kube: Kube, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    none = {"labelSelector": "larder.dev/nothing-has-this"}
    assert await list_metadata(kube, path, none) == []
    assert await list_objects(kube, path, Object, none) == []
    await create_if_missing(kube, path, {"metadata": {"name": "one"}, "data": {"a": "b"}})
    assert "one" in [found.metadata.name for found in await list_metadata(kube, path)]

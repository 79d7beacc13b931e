import asyncio
from collections.abc import Callable

import pytest

from shared.json_object import Json
from shared.kube.collection import get_object, list_objects
from shared.kube.edit import create_if_missing, delete_if_present, merge_patch, update
from shared.kube.errors import NotFound, Refused
from shared.kube.objects import Object
from shared.kube.transport import Kube


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def adding(key: str) -> Callable[[Json], Json]:
    return lambda found: found | {"data": found.get("data", {}) | {key: "here"}}


async def test_twenty_concurrent_writers_lose_no_update(kube: Kube, namespace: str) -> None:
    path = f"{maps(namespace)}/shared"
    await create_if_missing(kube, maps(namespace), {"metadata": {"name": "shared", "labels": {"of": "another"}}})
    await asyncio.gather(*(update(kube, path, adding(f"k{n}"), within_s=30) for n in range(20)))
    found = await update(kube, path, lambda _: None)
    assert set(found["data"]) == {f"k{n}" for n in range(20)}
    assert found["metadata"]["labels"] == {"of": "another"}


async def test_an_update_of_a_missing_object_raises_not_found(kube: Kube, namespace: str) -> None:
    with pytest.raises(NotFound):
        await update(kube, f"{maps(namespace)}/none", adding("k"))


async def test_a_forbidden_edit_is_refused_with_the_server_s_message(kube: Kube, namespace: str) -> None:
    with pytest.raises(Refused, match=r"422 Invalid: .*a lowercase RFC 1123 subdomain"):
        await create_if_missing(kube, maps(namespace), {"metadata": {"name": "Not_A_Name"}})


async def test_a_label_patch_keeps_other_labels_and_a_repeat_writes_nothing(kube: Kube, namespace: str) -> None:
    path = f"{maps(namespace)}/labelled"
    await create_if_missing(kube, maps(namespace), {"metadata": {"name": "labelled", "labels": {"of": "another"}}})
    for labels in ({"a": "1", "b": "2"}, {"a": None, "c": "3"}):
        await merge_patch(kube, path, {"metadata": {"labels": labels}})
    once = await get_object(kube, path, Object)
    await merge_patch(kube, path, {"metadata": {"labels": {"a": None, "c": "3"}}})
    twice = await get_object(kube, path, Object)
    assert once is not None
    assert once.metadata.labels == {"of": "another", "b": "2", "c": "3"}
    assert twice == once


async def test_create_and_delete_are_idempotent(kube: Kube, namespace: str) -> None:
    path, body = f"{maps(namespace)}/m", {"metadata": {"name": "m"}}
    assert [await create_if_missing(kube, maps(namespace), body) for _ in range(2)] == [True, False]
    found = await get_object(kube, path, Object)
    assert found is not None
    assert not await delete_if_present(kube, path, uid="another")
    assert await delete_if_present(kube, path, uid=found.metadata.uid)
    assert not await delete_if_present(kube, path)
    assert await get_object(kube, path, Object) is None


async def test_all_metadata_of_an_object_is_decoded(kube: Kube, namespace: str) -> None:
    body = {"metadata": {"name": "m", "annotations": {"a": "1"}, "finalizers": ["larder.dev/test"]}}
    path = f"{maps(namespace)}/m"
    await create_if_missing(kube, maps(namespace), body)
    await delete_if_present(kube, path)
    found = await get_object(kube, path, Object)
    await merge_patch(kube, path, {"metadata": {"finalizers": None}})
    assert found is not None
    assert found.metadata.finalizers == ["larder.dev/test"]
    assert found.metadata.annotations == {"a": "1"}
    assert (found.metadata.deletion_timestamp or "") >= found.metadata.creation_timestamp > ""
    assert await get_object(kube, path, Object) is None


async def test_a_list_can_be_filtered_by_a_label_selector(kube: Kube, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await create_if_missing(kube, maps(namespace), {"metadata": {"name": name, "labels": {"name": name}}})
    chosen = await list_objects(kube, maps(namespace), Object, {"labelSelector": "name in (a,b)"})
    assert sorted(obj.metadata.name for obj in chosen) == ["a", "b"]

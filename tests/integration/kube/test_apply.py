"""Server-side apply with field managers, on the real API server."""

import pytest

from shared.json_object import Json
from shared.kube.collection import decode
from shared.kube.edit import apply, merge_patch
from shared.kube.errors import Refused
from shared.kube.transport import Kube


def manifest(namespace: str, **spec: object) -> Json:
    labels = {"a": "b"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod, **spec},
    }


async def test_a_field_no_longer_applied_is_removed_unless_another_manager_owns_it(kube: Kube, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/d"
    first = await apply(kube, path, manifest(namespace, replicas=3, minReadySeconds=7), "one")
    number = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
    await apply(kube, path, number, "two")
    await merge_patch(kube, path, {"metadata": {"annotations": {"of": "others"}}})
    after = await apply(kube, path, manifest(namespace), "one")
    assert first["spec"]["minReadySeconds"] == 7
    assert "minReadySeconds" not in after["spec"]
    assert after["spec"]["replicas"] == 3
    assert after["metadata"]["annotations"]["of"] == "others"
    await merge_patch(kube, f"{path}/scale", {"spec": {"replicas": 5}})
    assert (await apply(kube, path, manifest(namespace), "one"))["spec"]["replicas"] == 5
    again = await apply(kube, path, manifest(namespace), "one")
    found = decode(await kube.request("GET", path), Json)
    assert again["metadata"]["generation"] == found["metadata"]["generation"], "a repeat changes nothing"


@pytest.mark.parametrize("spec", [{"nonsense": 1}, {"replicas": "many"}, {"replicas": -1}])
async def test_an_invalid_manifest_is_refused(spec: Json, kube: Kube, namespace: str) -> None:
    with pytest.raises(Refused, match=r"nonsense|replicas"):
        await apply(kube, f"/apis/apps/v1/namespaces/{namespace}/deployments/d", manifest(namespace, **spec), "one")

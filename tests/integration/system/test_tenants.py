"""A namespace with many models, and its effect on others."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from tests.integration.system.leaderless import without_leader
from tests.integration.system.sites import GPU, opened

MODELS = "/apis/ome.io/v1beta1/namespaces/{}/basemodels"
MAX_MODELS = 10


@pytest.fixture(scope="module")
def shared(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of one node with space for ten models."""
    settings = {
        "LARDER_DRAIN_SECONDS": "1",
        "LARDER_LEASE_SECONDS": "4",
        "LARDER_MODELS_PER_NODE": str(MAX_MODELS),
        "LARDER_RESOLUTIONS_PER_MINUTE": "40",
    }
    with opened(binaries, tmp_path_factory.mktemp("shared"), settings, {"a": GPU}, replicas=1) as site:
        for namespace in ("greedy", "other"):
            site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield site


def declare(site: Site, namespace: str, name: str, uri: str, **storage: Any) -> None:
    spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri, **storage}}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": name}, "spec": spec}
    site.api.create(MODELS.format(namespace), body)


def ready(found: dict[str, Any]) -> dict[str, Any]:
    conditions = found.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Ready"), {"reason": "", "message": ""})


def reasons(site: Site, namespace: str) -> Counter[str]:
    return Counter(ready(found)["reason"] for found in site.api.get(MODELS.format(namespace))["items"])


def remove_all(site: Site) -> None:
    for namespace in ("greedy", "other"):
        for found in site.api.get(MODELS.format(namespace))["items"]:
            site.api.delete(f"{MODELS.format(namespace)}/{found['metadata']['name']}")
    site.until(lambda: not reasons(site, "greedy") and not reasons(site, "other"), "all models to be gone")


def test_a_namespace_with_too_many_models_is_reported_and_others_are_still_placed(shared: Site) -> None:
    for i in range(12):
        declare(shared, "greedy", f"m{i:02}", shared.push(), nodeSelector=GPU)
    half = Counter(Stocked=MAX_MODELS // 2, TooManyModels=12 - MAX_MODELS // 2)
    shared.until(lambda: reasons(shared, "greedy") == half, f"half of the room to be taken: {half}")
    declare(shared, "other", "ours", shared.push(), nodeSelector=GPU)
    cluster = shared.base_model(nodeSelector=GPU)
    shared.until(lambda: reasons(shared, "other") == Counter(["Stocked"]), "the other team's model")
    shared.wait_ready("ClusterBaseModel", cluster)

    models = shared.api.get(MODELS.format("greedy"))["items"]
    placed = [m for m in models if ready(m)["reason"] == "Stocked"]
    refused = [m for m in models if ready(m)["reason"] == "TooManyModels"]
    assert f"namespace greedy has {len(placed)} models on this node already" in ready(refused[0])["message"]

    for model in placed[:4]:  # it may have as many as it leaves free: five
        shared.api.delete(f"{MODELS.format('greedy')}/{model['metadata']['name']}")
    shared.until(lambda: reasons(shared, "greedy")["Stocked"] == 4, "others to take the free places")
    assert reasons(shared, "other") == Counter(["Stocked"])
    shared.delete("ClusterBaseModel", cluster)
    remove_all(shared)


def test_resolutions_over_the_limit_wait_with_a_reason_and_do_not_delay_others(shared: Site) -> None:
    uri = shared.push(files={"config.json": b"{}"})
    with without_leader(shared):  # so that all are requested at once, however slow this machine is
        for i in range(60):
            declare(shared, "greedy", f"m{i:02}", uri, nodeSelector={"pool": "none"})
        declare(shared, "other", "ours", uri, nodeSelector={"pool": "none"})
    shared.until(lambda: reasons(shared, "other") == Counter(["NoNodes"]), "the other team's model to be resolved")
    assert reasons(shared, "greedy")["NoNodes"] < 60
    shared.until(lambda: reasons(shared, "greedy")["TooManyResolutions"] > 0, "the limit to be reported")
    found = shared.api.get(MODELS.format("greedy"))["items"]
    waiting = next(m for m in found if ready(m)["reason"] == "TooManyResolutions")
    assert "namespace greedy has reached its limit of 40 resolutions per minute" in ready(waiting)["message"]
    shared.until(lambda: reasons(shared, "greedy") == Counter(NoNodes=60), "all to be resolved in the end")
    remove_all(shared)

"""Caches that are too large for their group, created through the real API server."""

import msgspec

from rig.admission import AdmissionSite
from shared.json_object import Json
from tests.builders.cluster import group


def cache(name: str, **spec: object) -> Json:
    fields = {"storageUri": "s3://bucket/m", "nodeGroup": "tiny", **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterModelCache",
        "metadata": {"name": name},
        "spec": fields,
    }


def test_a_cache_that_cannot_fit_is_admitted_with_a_warning(site: AdmissionSite) -> None:
    site.catalog.groups["tiny"] = group("tiny", {}, storage_limit="1Gi")
    large = site.kubectl("create", "-f", "-", stdin=cache("large", modelSize="20Gi"))
    assert large.returncode == 0
    assert "Warning: larder: the model needs 20.0 GiB (spec.modelSize)" in large.stderr
    assert "ModelCacheNodeGroup tiny allows 1.0 GiB per node" in large.stderr
    fitting = site.kubectl("create", "-f", "-", stdin=cache("fitting", modelSize="1Gi"))
    assert (fitting.returncode, fitting.stderr) == (0, "")

    path = "/apis/serving.kserve.io/v1alpha1/clustermodelcaches/fitting"
    site.api.patch(f"{path}/status", {"status": {"size": 3 * 2**30}})
    edited = {"spec": {"nodeGroups": ["tiny"]}}
    answer = site.kubectl("patch", "clustermodelcache", "fitting", "--type=merge", "-p", _json(edited))
    assert "Warning: larder: the model needs 3.0 GiB (status.size)" in answer.stderr
    for name in ("large", "fitting"):
        site.api.delete(f"/apis/serving.kserve.io/v1alpha1/clustermodelcaches/{name}")
    del site.catalog.groups["tiny"]


def _json(body: Json) -> str:
    return msgspec.json.encode(body).decode()

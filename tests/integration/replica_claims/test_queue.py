"""The queue of claims when the API server restarts."""

from shared.json_object import Json
from tests.integration.replica_claims.namespaces import Tenant

REPLICAS, QUEUED = 800, 500  # on a slow machine, some are created before the API server stops


def training_job(replicas: int) -> Json:
    """Return a job whose pods each have a claim that nothing binds."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    container = {"name": "main", "image": "pause:3.10", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    worker = {
        "replicas": replicas,
        "template": {"spec": {"automountServiceAccountToken": False, "containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    kind = {"apiVersion": "larder.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "train"}}
    return kind | {"spec": {"replicaSpecs": {"Worker": worker}}}


def test_500_queued_claims_survive_a_restart_of_the_api_server(tenant: Tenant) -> None:
    """All claims of a TrainingJob are requested at once, so all but the first burst are queued."""
    labels = {"labels": {"larder.dev/training-jobs": "true"}}
    tenant.site.api.patch(f"/api/v1/namespaces/{tenant.namespace}", {"metadata": labels})
    tenant.site.api.create(
        f"/apis/larder.dev/v1alpha1/namespaces/{tenant.namespace}/trainingjobs", training_job(REPLICAS)
    )
    tenant.site.until(lambda: bool(tenant.claims()), "the first claims")
    before = {name: claim["metadata"]["uid"] for name, claim in tenant.claims().items()}
    tenant.site.cluster.plane.restart_apiserver()
    assert REPLICAS - len(before) >= QUEUED

    tenant.site.until(lambda: len(tenant.claims()) == REPLICAS, "all claims", 240)
    claims = tenant.claims()
    in_order = [f"data-train-worker-{index}" for index in range(REPLICAS)]
    assert claims.keys() == set(in_order)
    assert {name: claims[name]["metadata"]["uid"] for name in before} == before
    created = [claims[name]["metadata"]["creationTimestamp"] for name in in_order]
    assert created == sorted(created)
    tenant.site.until(lambda: len(tenant.items("pods")) == REPLICAS, "all pods", 240)

"""The descriptions of declared models that admission uses for pods."""

import msgspec
import pytest

from controller.admission.catalog.port import CatalogModel
from controller.admission.catalog.state_catalog import StateCatalog
from controller.claims.outcome import BLOCKING_REASONS
from controller.inferenceservices.users import ServiceUsers
from controller.placement.allowed_sources import AllowedSources
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.api.meta import Condition
from shared.kube.objects import Key
from shared.kube.transport import Kube
from shared.names import uses_label
from tests.builders.cluster import (
    base_model,
    cache,
    cluster_model,
    pod,
)
from tests.builders.model_caches import cache as model_cache


def found(model: CatalogModel | None) -> CatalogModel:
    assert model is not None
    return model


async def test_a_namespaces_own_model_takes_precedence_over_a_cluster_model(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    assert catalog.base_model("team", "m") is None
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    assert found(catalog.base_model("team", "m")).id == "m"
    cluster.base_models.upsert(base_model("team", "m"))
    assert found(catalog.base_model("team", "m")).id == "team_m"
    assert found(catalog.base_model("elsewhere", "m")).id == "m"


async def test_caches_are_described_with_their_serving_revision(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("m", "g"))
    cluster.cluster_model_caches.upsert(cache("new", "g", revision=""))
    reported = {
        model.name: (model.serving_revision, model.uri, model.groups) for model in catalog.cluster_model_caches()
    }
    assert reported == {"m": ("r1", "hf://org/m@main", ("g",)), "new": ("", "hf://org/new@main", ("g",))}


async def test_the_nodes_of_a_model_are_those_that_its_object_names(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(cluster_model("m", {"pool": "gpus"}))
    assert found(catalog.base_model("", "m")).node_selector == {"pool": "gpus"}


async def test_the_reason_why_pods_cannot_use_a_model_is_described(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(cluster_model("bad", {}, uri="ftp://x/y"))
    assert found(catalog.base_model("", "bad")).reason == "InvalidURI"
    cluster.cluster_model_caches.upsert(cache("m", "g"))
    later = cluster_model("m", {}, uri="s3://bucket/x", creation_timestamp="2026-05-01T00:00:00Z", uid="later")
    cluster.cluster_base_models.upsert(later)
    assert found(catalog.base_model("", "m")).reason == "NameConflict"
    unresolved = cluster_model("gone", {})
    why = Condition(type="Resolved", status="False", reason="SourceNotFound", message="no", last_transition_time="t")
    status = msgspec.structs.replace(unresolved.status, conditions=[why])
    cluster.cluster_base_models.upsert(msgspec.structs.replace(unresolved, status=status))
    assert (found(catalog.base_model("", "gone")).reason, found(catalog.base_model("", "gone")).message) == (
        "SourceNotFound",
        "no",
    )


async def test_a_source_that_is_not_allowed_blocks_pods_unless_a_revision_already_serves(
    cluster: ClusterState, kube: Kube
) -> None:
    cluster.models.allowed = AllowedSources(())
    catalog = StateCatalog(
        cluster,
        kube,
        Manifests(kube, "ns"),
        ServiceUsers(kube, cluster, enabled=True),
        ResourceClaimUsers(kube, enabled=True),
    )
    cluster.base_models.upsert(base_model("team", "m"))
    assert found(catalog.base_model("team", "m")).reason == "SourceNotAllowed"
    model = base_model("team", "m")
    serving = msgspec.structs.replace(model.status, serving_revision="r1")
    cluster.base_models.upsert(msgspec.structs.replace(model, status=serving))
    assert found(catalog.base_model("team", "m")).reason == "", "pods can get the revision that nodes already have"


@pytest.mark.parametrize(
    ("source", "reason", "kept_away"),
    [
        ("pvc://ns/claim/dir", "PathNotFound", True),
        ("pvc://ns/claim/dir", "PVCNotBound", True),
        ("pvc://ns/claim/dir", "OnClaim", False),
        ("pvc://ns/claim/dir", "WaitForFirstConsumer", False),
        ("pvc://ns/claim/dir", "NotPermitted", True),
        ("pvc://ns/claim/other", "OnClaim", True),
        *(("pvc://ns/claim/dir", reason, True) for reason in BLOCKING_REASONS),
    ],
)
async def test_a_model_on_a_claim_is_usable_only_if_its_status_is_current_and_it_was_checked(
    source: str,
    reason: str,
    kept_away: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    model = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    cluster.cluster_base_models.upsert(model)
    assert found(catalog.base_model("", "m")).reason == "Reading"
    truth = "True" if reason == "OnClaim" else "False"
    ready = Condition(type="Ready", status=truth, reason=reason, message="words", last_transition_time="t")
    resolved = Condition(type="Resolved", status="False", reason="Old", message="words", last_transition_time="t")
    status = msgspec.structs.replace(model.status, source=source, conditions=[ready, resolved])
    newer = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    cluster.cluster_base_models.upsert(msgspec.structs.replace(newer, status=status))
    assert bool(found(catalog.base_model("", "m")).reason) is kept_away


@pytest.mark.parametrize(("metadata", "kept_away"), [("Reading", True), ("Skipped", False), ("Written", False)])
async def test_one_pod_binds_an_unbound_claim_and_others_wait_until_it_is_read(
    metadata: str,
    kept_away: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    model = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    reported = {"Ready": "WaitForFirstConsumer", "Metadata": metadata}
    conditions = [Condition(type=k, status="False", reason=r, message="w", last_transition_time="t")
                  for k, r in reported.items()]  # fmt: skip
    status = msgspec.structs.replace(model.status, source="pvc://ns/claim/dir", conditions=conditions)
    cluster.cluster_base_models.upsert(msgspec.structs.replace(model, status=status))
    labels = {uses_label("m"): "true"}
    cluster.model_pods.upsert(pod("elsewhere", "n", labels=labels, namespace="other"))
    cluster.model_pods.upsert(pod("done", "n", phase="Succeeded", labels=labels))
    assert found(catalog.base_model("ns", "m")).reason == ""
    cluster.model_pods.upsert(pod("first", "", phase="Pending", labels=labels))
    assert bool(found(catalog.base_model("ns", "m")).reason) is kept_away
    if kept_away:
        assert found(catalog.base_model("ns", "m")).message.startswith("pod first binds PVC claim")


async def test_a_model_of_another_product_is_described_as_unmanaged(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.ownership.set_foreign("BaseModel", foreign=True)
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    cluster.models.set_unmanaged("BaseModel", Key("team", "m"), base_model("team", "m"))
    assert not found(catalog.base_model("team", "m")).managed, (
        "the namespace's own model takes precedence, even if another product manages it"
    )
    assert found(catalog.base_model("elsewhere", "m")).managed
    assert not found(catalog.base_model("elsewhere", "unknown")).managed, "it may be ready by the time the pod starts"


async def test_the_description_of_a_model_cache_is_reused_until_it_changes(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    def declare(name: str, uri: str) -> None:
        found = model_cache(storage_uri=uri)
        metadata = msgspec.structs.replace(found.metadata, name=name, resource_version=uri)
        cluster.model_caches.upsert(msgspec.structs.replace(found, metadata=metadata))

    declare("a", "s3://models/a")
    (first,) = catalog.model_caches("team")
    (again,) = catalog.model_caches("team")
    assert again is first, "a namespace may have thousands, which each review needs"
    declare("a", "s3://models/b")
    (changed,) = catalog.model_caches("team")
    assert changed.uri == "s3://models/b"
    for number in range(300):
        declare(f"m-{number}", "s3://models/c")
    assert len(list(catalog.model_caches("team"))) == 301
    cluster.model_caches.replace([])
    assert list(catalog.model_caches("team")) == []
    assert len(catalog._models._known) <= 100, "deleted caches take no memory"


async def test_a_namespace_sees_the_names_of_its_own_models_and_of_shared_ones(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.cluster_model_caches.upsert(cache("shared", "g"))
    cluster.base_models.upsert(base_model("team", "own"))
    cluster.base_models.upsert(base_model("other", "secret"))
    cluster.model_caches.upsert(model_cache())
    assert set(catalog.names("team")) == {"shared", "own", model_cache().metadata.name}
    assert set(catalog.names("elsewhere")) == {"shared"}


async def test_a_model_cache_that_is_not_ready_is_described_with_the_reason(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    declared = model_cache()
    cluster.model_caches.upsert(declared)
    assert [m.reason for m in catalog.model_caches("team")] == ["Pending"]
    for version, (truth, reason) in enumerate((("False", "RateLimited"), ("True", ""))):
        ready = Condition(type="Ready", status=truth, reason="RateLimited", message="", last_transition_time="t")
        status = msgspec.structs.replace(declared.status, conditions=[ready])
        meta = msgspec.structs.replace(declared.metadata, resource_version=str(version))
        cluster.model_caches.upsert(msgspec.structs.replace(declared, status=status, metadata=meta))
        assert [m.reason for m in catalog.model_caches("team")] == [reason]

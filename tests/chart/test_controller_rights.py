"""The controller has exactly the rights with a listed reason; requests are tried with its token."""

from collections.abc import Iterator

import pytest

from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.objects import only

OME, KSERVE, OWN = "ome.io", "serving.kserve.io", "larder.dev"
FOLLOW = {"list": "read by reflectors", "watch": "read by reflectors"}
READ = {"get": "live reads before files are removed, and before each write"} | FOLLOW
STATUS = {"get": "read before each write", "update": "the status that users see"}
MODEL = READ | {"update": "finalizers, and the record if the kind is another product's"}

CLUSTER: dict[tuple[str, str], dict[str, str]] = {
    ("", "nodes"): {"get": "the live uid of a Node"} | FOLLOW,
    ("", "pods"): {
        "get": "a live read before a waiting pod is failed",
        "list": "users of a model, live; agents",
        "watch": "users and agents",
        "patch": "the scheduling gate; restricted by a policy",
    },
    ("", "pods/status"): {"patch": "fails pods that must not wait; restricted by a policy"},
    ("", "events"): {"create": "Events on models"},
    ("", "persistentvolumeclaims"): {
        "get": "the claim of a model, live",
        "list": "changes that queue models; names that are taken",
        "watch": "as list",
        "create": "claims of models; restricted by a policy",
        "delete": "as create",
    },
    ("", "persistentvolumes"): {
        "get": "whether a volume of that name is ours, live",
        "create": "volumes of models; restricted by a policy",
        "delete": "as create",
    }
    | FOLLOW,
    ("", "namespaces"): {"get": "the label that claims.requireNamespaceLabel requires"},
    ("storage.k8s.io", "storageclasses"): {"get": "whether a claim waits for its first consumer"},
    ("batch", "jobs"): {"get": "how a metadata Job ended", "create": "metadata Jobs; restricted by a policy"},
    (OME, "basemodels"): MODEL,
    (OME, "clusterbasemodels"): MODEL,
    (OME, "basemodels/status"): STATUS,
    (OME, "clusterbasemodels/status"): STATUS,
    (KSERVE, "clustermodelcaches"): MODEL,
    (KSERVE, "modelcaches"): READ | {"update": "finalizers"},
    (KSERVE, "modelcachenodegroups"): READ,
    (KSERVE, "inferenceservices"): {"list": "KServe's services that use a cache before it is deleted"},
    (KSERVE, "llminferenceservices"): {"list": "KServe's services that use a cache before it is deleted"},
    (KSERVE, "clustermodelcaches/status"): STATUS,
    (KSERVE, "modelcachenodegroups/status"): STATUS,
    (OWN, "modelnodes"): READ
    | {"create": "one per Node", "update": "the spec", "delete": "that of a Node that was replaced"},
    ("apiextensions.k8s.io", "customresourcedefinitions"): {"get": "which product owns a kind; only eight names"},
    ("authentication.k8s.io", "tokenreviews"): {"create": "the node of an agent's token"},
}
MODEL_CACHES: dict[tuple[str, str], dict[str, str]] = {
    (KSERVE, "modelcaches/status"): STATUS,
    ("batch", "jobs"): {"delete": "downloads of a deleted cache; restricted by a policy"},
}
RELEASE: dict[tuple[str, str], dict[str, str]] = {
    ("", "configmaps"): {
        "get": "manifests",
        "create": "manifests, which are immutable",
        "list": "manifests that may be unreferenced",
        "delete": "unreferenced manifests; restricted by a policy",
    },
    ("", "secrets"): {"get": "credentials of cluster-scoped models"},
    ("coordination.k8s.io", "leases"): {
        "create": "the Lease, once",
        "get": "the present leader; only one name",
        "update": "renewals; only one name",
    },
}
NAMES = {
    "leases": {"larder-controller"},
    "customresourcedefinitions": {
        "basemodels.ome.io",
        "clusterbasemodels.ome.io",
        "clustermodelcaches.serving.kserve.io",
        "inferenceservices.ome.io",
        "modelcaches.serving.kserve.io",
        "modelcachenodegroups.serving.kserve.io",
        "models.models.example.com",
        "trainingjobs.larder.dev",
    },
}


def verbs_of(rules: list[Json]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


@pytest.mark.parametrize(("kind", "reasons"), [("ClusterRole", CLUSTER), ("Role", RELEASE)])
def test_the_controller_has_exactly_the_verbs_that_have_a_reason(
    kind: str, reasons: dict[tuple[str, str], dict[str, str]], render: Render
) -> None:
    rules = only(render(), kind, "larder-controller")["rules"]
    assert verbs_of(rules) == {what: set(why) for what, why in reasons.items()}


def test_rights_for_models_are_off_by_default(render: Render) -> None:
    names = {body["metadata"]["name"] for body in render({})}
    assert not names & {"larder-models", "model-injector"}


def test_model_caches_add_exactly_the_expected_verbs_and_none_when_switched_off(render: Render) -> None:
    found = verbs_of(only(render(), "ClusterRole", "larder-model-caches")["rules"])
    assert found == {what: set(why) for what, why in MODEL_CACHES.items()}
    names = {body["metadata"]["name"] for body in render({"modelCaches": {"enabled": False}})}
    assert not names & {"larder-model-caches", "larder-download-jobs", "larder-download-claims"}


def test_volume_claim_templates_add_rights_only_when_switched_on(render: Render) -> None:
    kinds = {"workloads": [{"apiVersion": "example.org/v1", "kind": "Train", "resource": "trains"}]}
    rendered = render({"volumeClaimTemplates": {"enabled": True} | kinds})
    found = verbs_of(only(rendered, "ClusterRole", "larder-volume-claim-templates")["rules"])
    assert found == {("example.org", "trains"): {"get"}, ("example.org", "trains/finalizers"): {"update"}}
    names = {body["metadata"]["name"] for body in render({"volumeClaimTemplates": kinds})}
    assert "larder-volume-claim-templates" not in names


@pytest.mark.parametrize("resource", NAMES)
def test_rules_for_named_resources_list_exactly_the_expected_names(resource: str, render: Render) -> None:
    roles = [only(render(), kind, "larder-controller") for kind in ("ClusterRole", "Role")]
    rules = [r for role in roles for r in role["rules"] if resource in r["resources"]]
    assert all(set(r.get("resourceNames", [])) == NAMES[resource] for r in rules if r["verbs"] != ["create"])


@pytest.fixture(scope="module")
def controller(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with a token of the controller."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    client = plane.api_with_token(
        str(api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"])
    )
    yield client
    client.close()


_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"/api/v1/namespaces/{NAMESPACE}/pods/any"),
        ("PUT", f"/api/v1/namespaces/{NAMESPACE}/pods/any/status"),
        ("GET", f"{_LEASES}/other"),
        ("GET", _LEASES),
        ("PUT", f"{_LEASES}/other"),
        ("PATCH", f"{_LEASES}/larder-controller"),
        ("DELETE", f"{_LEASES}/larder-controller"),
        ("PUT", "/apis/serving.kserve.io/v1alpha1/modelcachenodegroups/any"),
        ("DELETE", "/apis/ome.io/v1beta1/namespaces/default/basemodels/any"),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/modelnodes.larder.dev"),
        ("PUT", "/apis/larder.dev/v1alpha1/modelnodes/any/status"),
        ("PUT", f"/api/v1/namespaces/{NAMESPACE}/configmaps/any"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/any"),
        ("GET", "/api/v1/namespaces"),
        ("GET", "/apis/batch/v1/namespaces/default/cronjobs"),
        ("PATCH", "/apis/batch/v1/namespaces/default/jobs/any"),
        ("PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/any"),
        ("PUT", "/api/v1/persistentvolumes/any"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts"),
    ],
)
def test_requests_beyond_the_controllers_needs_are_forbidden(method: str, path: str, controller: Api) -> None:
    with pytest.raises(CallRefused, match="403"):
        controller.call(method, path, None if method in ("GET", "DELETE") else {})


def test_the_controller_updates_its_own_lease_but_cannot_delete_it(controller: Api) -> None:
    lease = {"metadata": {"name": "larder-controller"}, "spec": {"holderIdentity": "test"}}
    made = controller.create(_LEASES, lease)
    try:
        made["spec"]["holderIdentity"] = "test again"
        controller.call("PUT", f"{_LEASES}/larder-controller", made, "application/json")
        assert controller.get(f"{_LEASES}/larder-controller")["spec"]["holderIdentity"] == "test again"
    finally:
        with pytest.raises(CallRefused, match="403"):
            controller.delete(f"{_LEASES}/larder-controller")


_CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_CONFINED = "create and delete ConfigMaps named manifest-<digest>"
_MANIFEST = {"name": f"manifest-{'a' * 64}", "labels": {"larder.dev/kind": "manifest"}}


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "settings", "labels": {"larder.dev/kind": "manifest"}},
        {"name": "manifest-of-somebody", "labels": {"larder.dev/kind": "manifest"}},
        {"name": f"manifest-{'b' * 64}"},
    ],
    ids=["another name", "no digest", "no label"],
)
def test_the_controller_cannot_delete_config_maps_that_are_not_its_manifests(
    metadata: Json, controller: Api, api: Api
) -> None:
    wait_until(lambda: _is_confined(controller, metadata), 60, "the policy to be in force")
    api.create(_CONFIG_MAPS, {"metadata": metadata})
    try:
        with pytest.raises(CallRefused, match=_CONFINED):
            controller.delete(f"{_CONFIG_MAPS}/{metadata['name']}")
    finally:
        api.delete(f"{_CONFIG_MAPS}/{metadata['name']}")


def test_the_controller_creates_and_deletes_its_manifest_config_maps(controller: Api) -> None:
    controller.create(_CONFIG_MAPS, {"metadata": _MANIFEST, "immutable": True})
    controller.delete(f"{_CONFIG_MAPS}/{_MANIFEST['name']}")


def _is_confined(controller: Api, metadata: Json) -> bool:
    try:
        controller.create(f"{_CONFIG_MAPS}?dryRun=All", {"metadata": metadata})
    except CallRefused as refusal:
        return _CONFINED in str(refusal)
    return False

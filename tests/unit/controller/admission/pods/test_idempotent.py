"""Over generated pods: a second pass changes nothing, and the result is safe."""

import copy
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel, CatalogNode
from controller.admission.errors import AdmissionRefused
from controller.admission.paths import reaches
from controller.admission.pods.containers import containers_of, mounts_of
from controller.admission.pods.place_pod import preferences_of
from controller.admission.pods.pod_annotations import (
    BASE_MODEL,
    ENABLE_CACHE,
    INITIALIZER,
    KSERVE_LABEL,
    KSERVE_URI,
    LAYOUT,
    MODELS,
    MOUNT_PATH,
    NAMED_MODELS,
    NODE_GROUP,
    NOT_CACHED,
    READ_ONLY,
    SOURCE_URI,
    has_keys,
    read_models,
)
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings, Mount
from controller.placement.pod_placement import MODEL_GATE, PLACEMENT_ANNOTATION, Placement
from controller.placement.volume_names import CLAIMS_ANNOTATION, SnapshotKey
from rig.pods import initializer
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.kube.objects import Meta
from shared.names import ready_label, snapshot_label, uses_label

ROOT = "/var/lib/larder"
VOLUMES: list[dict[str, Any]] = [
    {"name": "kserve-provision-location", "emptyDir": {}},
    {"name": "larder-model", "hostPath": {"path": f"{ROOT}/models/other/r"}},
    {"name": "kserve-pvc-source", "hostPath": {"path": f"{ROOT}/models/cache/old", "type": "Directory"}},
    {"name": "host", "hostPath": {"path": "/data"}},
    {"name": "tmp", "emptyDir": {}},
    {"name": "mnt-other", "emptyDir": {}},
    {"name": "larder-model", "persistentVolumeClaim": {"claimName": "old", "readOnly": True}},
    {"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "cache"}},
]
MOUNT = st.fixed_dictionaries(
    {
        "name": st.sampled_from(sorted({v["name"] for v in VOLUMES})),
        "mountPath": st.sampled_from(["/mnt/models", "/mnt/models/", "/opt/ml/model", "/opt/ml", "/x", "/y"]),
    },
    optional={"readOnly": st.booleans(), "subPath": st.sampled_from(["a", "b"])},
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["kserve-container", "main", "istio-proxy"])},
    optional={
        "volumeMounts": st.lists(MOUNT, max_size=3, unique_by=lambda m: m["mountPath"]),
        "env": st.just([{"name": "MODEL_PATH", "value": "/x"}]) | st.just([{"name": "A", "value": "1"}]),
    },
)
URIS = st.sampled_from(
    ["s3://bucket/m", "s3://bucket/m/x", "s3://bucket/m/one.bin", "s3://bucket/m2", "hf://o/m:v", "nonsense"]
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        BASE_MODEL: st.sampled_from(["llama", "none", "claim"]),
        ENABLE_CACHE: st.sampled_from(["true", "false"]),
        KSERVE_URI: URIS,
        SOURCE_URI: URIS,
        READ_ONLY: st.just("false"),
        NODE_GROUP: st.sampled_from(["f", "g", "none"]),
        MODELS: st.sampled_from(["llama@r", "cache@r,llama@old", ",", "@"]),
        NOT_CACHED: st.just("stale"),
        NAMED_MODELS: st.sampled_from(["llama", "cache", "llama,cmc/cache", "claim,llama", "none"]),
        LAYOUT: st.sampled_from(["hub", "directory", "directory"]),
        MOUNT_PATH: st.sampled_from(["/models", "/x"]),
        PLACEMENT_ANNOTATION: st.sampled_from(["required", "preferred", "gated"]),
        CLAIMS_ANNOTATION: st.sampled_from(["old=llama@r", "llama=llama@r,cache=cache@old", "=,"]),
    },
)
ARGUMENTS = st.tuples(URIS, st.sampled_from(["/mnt/models", "/x/", "x"])) | st.just(
    ("s3://bucket/m", "/a", "s3://b/c", "/b")
)
INITIALIZERS = (
    st.lists(CONTAINER, max_size=1)
    | ARGUMENTS.map(lambda arguments: [initializer(arguments)])
    | st.tuples(ARGUMENTS, MOUNT).map(lambda made: [initializer(made[0]) | {"volumeMounts": [made[1]]}])
)
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(
            st.builds(
                lambda key, operator: {"key": key, "operator": operator},
                st.sampled_from(["zone", "pool"]),
                st.sampled_from(["Exists", "DoesNotExist"]),
            ),
            max_size=2,
        ),
        "matchFields": st.just([{"key": "metadata.name", "operator": "In", "values": ["n"]}]),
    },
)
PREFERENCE = st.sampled_from([*preferences_of(SnapshotKey("llama", "r")), {"weight": 1, "preference": {}}]).map(
    copy.deepcopy
)
SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
    optional={
        "initContainers": INITIALIZERS,
        "volumes": st.lists(st.sampled_from(VOLUMES), max_size=4, unique_by=lambda v: v["name"]),
        "nodeSelector": st.dictionaries(
            st.sampled_from(["zone", ready_label("llama"), snapshot_label("cache", "r")]), st.just("true"), max_size=2
        ),
        "affinity": st.tuples(st.lists(TERM, max_size=3), st.lists(PREFERENCE, max_size=2)).map(
            lambda terms: {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms[0]}, PREFERRED: terms[1]}}
        ),
        "schedulingGates": st.lists(st.sampled_from([{"name": MODEL_GATE}, {"name": "x"}]), max_size=2),
    },
)
METADATA = st.fixed_dictionaries(
    {"annotations": ANNOTATIONS},
    optional={
        "labels": st.just({uses_label("other"): "true", "app": "x"})
        | st.sampled_from(["predictor", "transformer"]).map(lambda part: {KSERVE_LABEL: "s", "component": part})
        | st.just({"base-model-name": "llama"})
    },
)
PODS = st.fixed_dictionaries({"metadata": METADATA, "spec": SPEC})

CATALOG = MemoryCatalog(
    base_models=[
        CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://o/llama@main", "r", "r"),
        CatalogModel("BaseModel", "ns", "claim", "ns_claim", "pvc://claim/sub"),
    ],
    cluster_caches=[
        CatalogModel("ClusterModelCache", "", "cache", "cache", "s3://bucket/m", "r", "old", groups=("f", "g"))
    ],
    groups={
        "f": ModelCacheNodeGroup(
            metadata=Meta(name="f"),
            spec=ModelCacheNodeGroupSpec(
                storage_limit="1Gi",
                node_affinity={
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                        ]
                    }
                },
            ),
        )
    },
    members={name: [CatalogNode("n", {"zone": "true"})] for name in ("f", "g")},
    paths={"cache": {"x/y", "one.bin"}},
)
MOUNTS: tuple[Mount, ...] = ("claim", "hostPath")
MODEL_AT_THE_PATH_OF_A_DOWNLOAD: dict[str, Any] = {
    "metadata": {"annotations": {NAMED_MODELS: "llama", ENABLE_CACHE: "true", MOUNT_PATH: "/x"}},
    "spec": {
        "containers": [{"name": "kserve-container"}],
        "initContainers": [initializer(("s3://bucket/m", "/x"))],
    },
}
PLACEMENTS: tuple[Placement, ...] = ("required", "preferred", "gated")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the machine may be busy
@given(PODS, st.sampled_from(MOUNTS), st.sampled_from(PLACEMENTS))
@example(MODEL_AT_THE_PATH_OF_A_DOWNLOAD, "claim", "required")
def test_a_second_pass_changes_nothing_and_no_mount_of_the_store_is_writable(
    pod: dict[str, Any], mount: Mount, placement: Placement
) -> None:
    rules = AdmissionSettings(store_root=ROOT, mount=mount, placement=placement)
    try:
        first = pod_changes(pod, "ns", CATALOG, rules)
    except AdmissionRefused:
        return
    after = jsonpatch.apply_patch(pod, list(first.patch))
    second = pod_changes(after, "ns", CATALOG, rules)
    assert second.patch == ()
    assert second.warnings == first.warnings
    if has_keys(pod):
        _assert_safe(after)


def _assert_safe(pod: dict[str, Any]) -> None:
    models = dict(read_models(pod))
    stored = {
        v["name"]: v["hostPath"]["path"]
        for v in pod["spec"].get("volumes", [])
        if "hostPath" in v and reaches(v["hostPath"]["path"], ROOT)
    }
    assert set(stored.values()) <= {f"{ROOT}/models/{name}/{revision}" for name, revision in models.items()}
    for container in containers_of(pod["spec"]):
        assert all(m.get("readOnly") is True for m in mounts_of(container) if m["name"] in stored)
    if ("cache", "r") in models.items() and "cache" not in pod["metadata"]["annotations"].get(NAMED_MODELS, ""):
        assert not any(c["name"] == INITIALIZER for c in pod["spec"].get("initContainers", []))
        assert KSERVE_URI not in pod["metadata"]["annotations"]
        assert pod["metadata"]["annotations"][SOURCE_URI].startswith("s3://bucket/m")
        paths = [[m["mountPath"] for m in mounts_of(c)] for c in containers_of(pod["spec"])]
        assert all(len(set(found)) == len(found) for found in paths)
    for name, revision in models.items():
        assert pod["metadata"]["labels"][uses_label(name)] == "true"
        if revision and pod["metadata"]["annotations"].get(PLACEMENT_ANNOTATION) != "preferred":
            assert pod["spec"]["nodeSelector"][snapshot_label(name, revision)] == "true"
            assert pod["spec"]["nodeSelector"][ready_label(name)] == "true"
    assert uses_label("other") not in pod["metadata"].get("labels", {})

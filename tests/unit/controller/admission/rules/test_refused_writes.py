"""Which objects may be written or deleted, and the messages of refusals."""

import re
from typing import Any

import pytest

from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import (
    InUse,
    InvalidPath,
    InvalidQuantity,
    InvalidSelection,
    InvalidSelector,
    SourceNotAllowed,
    UnknownGroup,
)
from controller.admission.rules.annotations import annotation_warnings
from controller.admission.rules.check_base_model import check_base_model
from controller.admission.rules.check_cluster_model_cache import check_cache
from controller.admission.rules.check_deletion import check_delete_group, check_delete_model
from controller.admission.rules.check_group import check_group
from controller.admission.rules.rule import needs_check
from controller.placement.allowed_sources import EVERY_SOURCE, AllowedSources, parse_allowed
from shared.errors import AuthDenied, InvalidURI, LarderError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _base(uri: str, **storage: object) -> dict[str, Any]:
    return {"spec": {"storage": {"storageUri": uri} | storage}}


def check_write(
    kind: str, obj: dict[str, Any], groups: tuple[str, ...], allowed: AllowedSources = EVERY_SOURCE
) -> list[str]:
    """The check of a kind, as its rule calls it; `allowed` binds the models of namespaces alone."""
    match kind:
        case "BaseModel":
            return check_base_model(obj, allowed, cluster_scoped=False)
        case "ClusterBaseModel":
            return check_base_model(obj, EVERY_SOURCE, cluster_scoped=True)
        case "ClusterModelCache":
            return check_cache(obj, groups)
        case _:
            return check_group(obj)


def _cache(uri: str = "s3://bucket/m", **spec: object) -> dict[str, Any]:
    return {"spec": {"storageUri": uri, "nodeGroup": "gpu"} | spec}


@pytest.mark.parametrize(
    "uri", ["hf://o/m", "hf://o/m@v1", "hf://o/m:v1", "s3://bucket/m", "s3://bucket@eu-west-1/m", "https://h/f.bin"]
)
@pytest.mark.parametrize("kind", ["BaseModel", "ClusterBaseModel"])
def test_models_with_valid_uris_are_accepted(kind: str, uri: str) -> None:
    assert check_write(kind, _base(uri), ()) == []


def test_only_namespaced_models_are_bound_to_the_allowed_sources() -> None:
    allowed = parse_allowed("hf://org")
    assert check_write("BaseModel", _base("hf://org/m"), (), allowed) == []
    assert check_write("BaseModel", _base("pvc://claim/sub"), (), allowed) == []
    assert check_write("ClusterBaseModel", _base("https://h/f.bin"), (), allowed) == []
    assert check_write("ClusterModelCache", _cache(), ("gpu",), allowed) == []
    with pytest.raises(
        SourceNotAllowed, match=r"^spec\.storage\.storageUri: https://h/f\.bin is not .* hf://org, pvc://"
    ):
        check_write("BaseModel", _base("https://h/f.bin"), (), allowed)
    with pytest.raises(InvalidURI, match="no installed source serves ftp://"):
        check_write("BaseModel", _base("ftp://h/f.bin"), (), allowed)


@pytest.mark.parametrize(
    ("uri", "key", "phrase"),
    [
        ("hf://o/m", "AWS_SECRET_ACCESS_KEY", "its name must contain `token`"),
        ("https://h/f.bin", "AZURE_STORAGE_SAS_TOKEN", "must not be a key of another kind of source"),
        ("s3://bucket/m", "token", "only hf://, https:// and git+https:// accept a token"),
        ("gs://bucket/m", "HF_TOKEN", "only hf://, https:// and git+https:// accept a token"),
        ("oci://r.test/m:1", "token", "only hf://, https:// and git+https:// accept a token"),
    ],
)
@pytest.mark.parametrize("kind", ["BaseModel", "ClusterBaseModel"])
def test_a_key_of_another_kind_of_source_is_refused_as_a_token(kind: str, uri: str, key: str, phrase: str) -> None:
    with pytest.raises(AuthDenied, match=re.escape(phrase)) as refused:
        check_write(kind, _base(uri, key="s", parameters={"secretKey": key}), ())
    assert str(refused.value).startswith(f"spec.storage.parameters.secretKey names {key!r}")


@pytest.mark.parametrize(
    ("uri", "secret", "key"),
    [
        ("hf://o/m", "s", "HF_TOKEN"),
        ("hf://o/m", "s", "my-token"),
        ("https://h/f.bin", "s", "token"),
        ("https://h/f.bin", "s", "HF_TOKEN"),  # h may be the hub's own host
        ("s3://bucket/m", "", "token"),  # no Secret: nothing is read
        ("pvc://claim/sub", "s", "token"),  # nothing is read for a claim either
    ],
)
def test_secret_keys_that_may_be_a_token_or_are_never_read_are_accepted(uri: str, secret: str, key: str) -> None:
    assert check_write("BaseModel", _base(uri, key=secret, parameters={"secretKey": key}), ()) == []


def test_claim_uris_are_accepted_in_the_form_of_their_scope() -> None:
    assert check_write("BaseModel", _base("pvc://claim/sub/path"), ()) == []
    assert check_write("ClusterBaseModel", _base("pvc://ns/claim/sub"), ()) == []
    assert check_write("ClusterBaseModel", _base("pvc://ns:claim/sub"), ()) == []


@pytest.mark.parametrize(
    ("parameters", "phrase"),
    [
        ({"allowPickle": "no"}, r"invalid file selection: .*allowPickle is 'no'; write true or false$"),
        ({"duplicateWeights": "drop"}, r"duplicateWeights is 'drop'; write keep or skip"),
        ({"ignorePatterns": ",".join(map(str, range(101)))}, r"invalid file selection: there are 101 file patterns"),
        ({"allowPatterns": "x" * 513}, "has 513 characters; write at most 512"),
    ],
)
def test_an_invalid_file_selection_is_refused(parameters: dict[str, str], phrase: str) -> None:
    """A typo must not count as a model that nodes should no longer hold."""
    with pytest.raises(InvalidSelection, match=phrase):
        check_write("BaseModel", _base("hf://o/m", parameters=parameters), ())
    well = {"allowPickle": "false", "duplicateWeights": "skip", "allowPatterns": "*.json,*.safetensors", "other": "x"}
    assert check_write("ClusterBaseModel", _base("hf://o/m", parameters=well), ()) == []


def test_a_vendor_s_model_is_accepted_with_a_note() -> None:
    (warning,) = check_write("ClusterBaseModel", _base("vendor://acme/llm/x"), ())
    assert "is ignored" in warning


@pytest.mark.parametrize(
    ("kind", "uri", "phrase"),
    [
        ("ClusterBaseModel", "nfs:///models/x", r"no installed source serves nfs:// .*; write one of hf://"),
        ("ClusterBaseModel", "b2://bucket/m", "no installed source serves b2://"),
        ("ClusterBaseModel", "ftp://h/m", "no installed source serves ftp://"),
        ("ClusterBaseModel", "hf://only", "write hf://ORG/REPO"),
        ("ClusterBaseModel", "s3://Bucket", "write s3://BUCKET/PREFIX"),
        ("ClusterBaseModel", "no-scheme", "write for example hf://org/model"),
        ("ClusterBaseModel", "", "write for example hf://org/model"),
        ("BaseModel", "pvc://ns:claim/sub", "write pvc://CLAIM/SUB-PATH"),
        ("ClusterBaseModel", "pvc://claim", "write pvc://NAMESPACE/CLAIM/SUB-PATH"),
        ("ClusterBaseModel", "pvc://ns/claim/../x", "without . or .."),
    ],
)
def test_a_uri_that_no_source_serves_is_refused_with_the_form(kind: str, uri: str, phrase: str) -> None:
    with pytest.raises(InvalidURI, match=rf"^spec\.storage\.storageUri: .*{phrase}"):
        check_write(kind, _base(uri), ())


def test_a_path_on_the_container_s_system_is_refused() -> None:
    with pytest.raises(InvalidPath, match=r"^spec\.storage\.path: '/etc/x' is a system directory"):
        check_write("BaseModel", _base("hf://o/m", path="/etc/x"), ())


def test_all_findings_are_reported_at_once() -> None:
    with pytest.raises(InvalidURI, match=r"storageUri.*; spec\.storage\.path.*; spec\.storage\.nodeSelector"):
        check_write("BaseModel", _base("x", path="y", nodeSelector={"a b": "c"}), ())


@pytest.mark.parametrize("spec", [{}, {"nodeGroup": "", "nodeGroups": ["gpu", "cpu"]}, {"modelSize": "140Gi"}])
def test_a_cache_on_known_groups_is_accepted(spec: dict[str, Any]) -> None:
    assert check_write("ClusterModelCache", _cache(**spec), ("gpu", "cpu")) == []


@pytest.mark.parametrize(
    ("spec", "error", "phrase"),
    [
        ({"nodeGroup": "gpus"}, UnknownGroup, "there is no ModelCacheNodeGroup 'gpus'; write one of cpu, gpu"),
        ({"nodeGroups": ["gpu", "x"]}, UnknownGroup, "no ModelCacheNodeGroup 'x'"),
        ({"nodeGroup": ""}, UnknownGroup, "no ModelCacheNodeGroup is named; write one of"),
        ({"modelSize": "140 GB"}, InvalidQuantity, r"^spec\.modelSize: '140 GB' is not a quantity; write a number"),
        ({"modelSize": -1}, InvalidQuantity, "'-1' is not a quantity"),
        ({"modelSize": 0}, InvalidQuantity, "0 is too small"),
        ({"storageUri": "nfs://x/y/z"}, InvalidURI, "no installed source serves nfs://"),
        ({"storageUri": "vendor://x/y/z"}, InvalidURI, "no installed source serves vendor://"),
        ({"storageUri": "pvc://ns/claim/x"}, InvalidURI, "a claim needs no cache"),
    ],
)
def test_an_invalid_cache_is_refused(spec: dict[str, Any], error: type[LarderError], phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        check_write("ClusterModelCache", _cache(**spec), ("gpu", "cpu"))


def test_a_cache_is_refused_with_a_hint_if_no_group_exists() -> None:
    with pytest.raises(UnknownGroup, match="none exists yet; create one first"):
        check_write("ClusterModelCache", _cache(), ())


def _affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100"}},
        {"nodeSelector": {"a": ""}, "bandwidthLimit": "100M"},
        {"nodeAffinity": _affinity({"key": "zone", "operator": "In", "values": ["a"]})},
        {"nodeAffinity": _affinity({"key": "cores", "operator": "Gt", "values": ["8"]})},
        {"nodeAffinity": _affinity({"key": "gpu", "operator": "Exists"})},
        {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            }
        },
    ],
)
def test_a_group_with_a_valid_selector_is_accepted(spec: dict[str, Any]) -> None:
    assert check_write("ModelCacheNodeGroup", {"spec": {"storageLimit": "500Gi"} | spec}, ()) == []


def test_a_group_without_a_selector_gets_a_warning_that_it_selects_every_node() -> None:
    (warning,) = check_write("ModelCacheNodeGroup", {"spec": {"storageLimit": 1024}}, ())
    assert "every node" in warning


@pytest.mark.parametrize(
    ("spec", "error", "phrase"),
    [
        ({"storageLimit": "lots"}, InvalidQuantity, "spec.storageLimit: 'lots' is not a quantity"),
        ({"storageLimit": "0"}, InvalidQuantity, "too small"),
        ({"storageLimit": "9E30"}, InvalidQuantity, "too large"),
        ({"storageLimit": "1e9999999"}, InvalidQuantity, "spec.storageLimit"),
        ({"bandwidthLimit": "-5M"}, InvalidQuantity, "spec.bandwidthLimit"),
        ({"nodeSelector": {"a b": "c"}}, InvalidSelector, "'a b' is not a label key"),
        ({"nodeSelector": {"UPPER.example.com/": "c"}}, InvalidSelector, "is not a label key"),
        ({"nodeSelector": {"a": "b c"}}, InvalidSelector, "'b c' is not a label value"),
        ({"nodeAffinity": {"nodeSelectorTerms": []}}, InvalidSelector, f"write {REQUIRED}.nodeSelectorTerms"),
        ({"nodeAffinity": {REQUIRED: {}}}, InvalidSelector, "has no nodeSelectorTerms"),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}, InvalidSelector, r"\[0\]: is empty"),
        (
            {"nodeAffinity": _affinity({"key": "a", "operator": "in"})},
            InvalidSelector,
            "'in' is not an operator; use one",
        ),
        ({"nodeAffinity": _affinity({"key": "a", "operator": "In"})}, InvalidSelector, "needs at least one value"),
        (
            {"nodeAffinity": _affinity({"key": "a", "operator": "Exists", "values": ["x"]})},
            InvalidSelector,
            "no values",
        ),
        ({"nodeAffinity": _affinity({"key": "a", "operator": "Gt", "values": ["x"]})}, InvalidSelector, "whole number"),
        ({"nodeAffinity": _affinity({"operator": "Exists"})}, InvalidSelector, r"\.key: '' is not a label key"),
        (
            {"nodeAffinity": _affinity({"key": "a", "operator": "In", "values": "x"})},
            InvalidSelector,
            r"spec.nodeAffinity is not a v1.NodeAffinity: Expected `array . null`, got `str` - at .*\.values`",
        ),
        ({"nodeAffinity": _affinity({"key": 1, "operator": "Exists"})}, InvalidSelector, "not a v1.NodeAffinity"),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["a"]}}}, InvalidSelector, "not a v1.NodeAffinity"),
        ({"nodeAffinity": {REQUIRED: "gpu"}}, InvalidSelector, "not a v1.NodeAffinity"),
        ({"nodeAffinity": _affinity({"key": "a", "operator": "Gt", "values": [8]})}, InvalidSelector, r"\['8'\]"),
        ({"nodeSelector": {"a": "b\n"}}, InvalidSelector, "is not a label value"),
    ],
)
def test_an_invalid_group_is_refused(spec: dict[str, Any], error: type[LarderError], phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        check_write("ModelCacheNodeGroup", {"spec": {"storageLimit": "1Gi"} | spec}, ())


def test_a_long_affinity_is_accepted_only_in_cluster_models() -> None:
    long = _affinity(*({"key": f"k{number}", "operator": "Exists"} for number in range(200)))
    spec = {"storage": {"storageUri": "hf://o/m", "nodeAffinity": long}}
    with pytest.raises(InvalidSelector, match="more than 4 KiB"):
        check_write("BaseModel", {"spec": spec}, ())
    check_write("ClusterBaseModel", {"spec": spec}, ())


@pytest.mark.parametrize(
    ("annotation", "wrong", "right", "phrase"),
    [
        ("larder.dev/pin", "yes", "true", 'write "true", or leave it out'),
        ("larder.dev/priority", "abc", "-5", "write a whole number"),
        ("larder.dev/drift", "Auto", "Follow", "write Follow or Manual"),
        ("larder.dev/drift", "follow", "Manual", "write Follow or Manual"),
    ],
)
def test_an_annotation_with_an_invalid_value_is_reported_as_ignored(
    annotation: str, wrong: str, right: str, phrase: str
) -> None:
    def reported(value: str) -> list[str]:
        return annotation_warnings({"metadata": {"annotations": {annotation: value}}})

    (warning,) = reported(wrong)
    assert warning.startswith(f"metadata.annotations[{annotation}]: '{wrong}' is ignored; ")
    assert phrase in warning
    assert reported(right) == []


def test_writes_without_a_change_of_the_spec_are_not_checked() -> None:
    old = _cache("gone://x")
    assert needs_check(old, None)
    assert needs_check(old, _cache())
    assert not needs_check(old | {"metadata": {"finalizers": ["x"]}}, old)
    assert not needs_check(old | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, _cache())


def test_deleting_a_model_in_use_is_refused_with_its_users() -> None:
    check_delete_model("ClusterBaseModel x", [])
    with pytest.raises(InUse, match=r"^ClusterBaseModel x is used by 1 pod: a/b; delete those first"):
        check_delete_model("ClusterBaseModel x", ["a/b"])
    with pytest.raises(InUse, match="used by 7 pods: a/0, a/1, a/2, a/3, a/4 and 2 more"):
        check_delete_model("ClusterBaseModel x", [f"a/{i}" for i in range(7)])


def test_a_group_that_caches_name_cannot_be_deleted() -> None:
    caches = [CatalogModel("ClusterModelCache", "", n, n, "s3://bucket/m", groups=("g", n)) for n in ("b", "a")]
    check_delete_group("other", caches)
    with pytest.raises(InUse, match="is used by ClusterModelCaches a, b; delete those first"):
        check_delete_group("g", caches)
    with pytest.raises(InUse, match="by ClusterModelCache a;"):
        check_delete_group("a", caches)

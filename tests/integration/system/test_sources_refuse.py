"""Refusals by a source or a disk are reported on the object with a remedy, and clear when they are fixed."""

import base64
import hashlib
import os

import pytest

from rig.demo.parts import SECRET
from rig.errors import CallRefused
from rig.hub import Corrupt, RepositoryAccess, Truncate
from rig.hub.repository import RepositoryFile, git_blob_id
from rig.larder.programs import NAMESPACE
from rig.larder.site import Site

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MODELS = f"/apis/ome.io/v1beta1/namespaces/{NAMESPACE}/basemodels"


@pytest.mark.parametrize(
    ("uri", "phrase"),
    [
        ("ftp://host/model", "ftp://"),
        ("hf://only-one-part", "hf://ORG/REPO"),
        ("s3://UPPER/model", "s3://BUCKET/PREFIX"),
        ("no uri at all", "hf://"),
    ],
)
def test_an_invalid_source_is_refused_at_once(site: Site, uri: str, phrase: str) -> None:
    with pytest.raises(CallRefused, match=phrase):
        site.cache(uri)
    with pytest.raises(CallRefused, match=phrase):
        site.base_model(uri)


def test_an_unknown_group_is_refused_with_the_existing_groups(site: Site) -> None:
    with pytest.raises(CallRefused, match="gpus"):
        site.cache("hf://a/b", group="nowhere")


def test_an_invalid_quantity_is_refused(site: Site) -> None:
    with pytest.raises(CallRefused, match="storageLimit"):
        site.group({"x": "y"}, storageLimit="much")
    with pytest.raises(CallRefused, match="modelSize"):
        site.cache("hf://a/b", modelSize="10 GB")


def test_the_uri_of_a_cache_is_immutable(site: Site) -> None:
    name = site.cache()
    path = f"/apis/serving.kserve.io/v1alpha1/clustermodelcaches/{name}"
    with pytest.raises(CallRefused, match="immutable"):
        site.api.patch(path, {"spec": {"storageUri": "hf://a/other"}})


def test_a_missing_repository_is_reported(site: Site) -> None:
    name = site.cache("hf://nobody/nothing")
    site.until(lambda: site.status("ClusterModelCache", name).get("storageStatus") == "Failed", "the cache to fail")
    condition = site.ready_condition("ClusterModelCache", name)
    assert condition["reason"] in ("SourceNotFound", "AuthDenied")
    assert "nobody/nothing" in condition["message"]


def test_a_missing_revision_is_reported(site: Site) -> None:
    name = site.cache(f"{site.push()}@v9")
    assert "v9" in site.wait_reason("ClusterModelCache", name, "RevisionNotFound")


def test_a_missing_bucket_is_reported(site: Site) -> None:
    name = site.cache("s3://no-such-bucket/model", credentialsSecret=SECRET)
    assert "no-such-bucket" in site.wait_reason("ClusterModelCache", name, "SourceNotFound")


def _secret(site: Site, token: str, labels: dict[str, str]) -> str:
    name = site.name("token")
    data = {"token": base64.b64encode(token.encode()).decode()}
    site.api.create(SECRETS, {"metadata": {"name": name, "labels": labels}, "data": data})
    return str(name)


def test_a_wrong_token_is_reported_and_the_right_one_succeeds(site: Site) -> None:
    uri = site.push(access=RepositoryAccess(frozenset({"the-right-token"})))
    wrong = _secret(site, "a-wrong-token", {"larder.dev/credentials": "true"})
    denied = site.cache(uri, credentialsSecret=wrong)
    message = site.wait_reason("ClusterModelCache", denied, "AuthDenied")
    assert "a-wrong-token" not in message
    right = _secret(site, "the-right-token", {"larder.dev/credentials": "true"})
    site.wait_ready("ClusterModelCache", site.cache(uri, credentialsSecret=right))


def test_a_secret_that_is_not_labelled_is_not_used(site: Site) -> None:
    secret = _secret(site, "the-right-token", {})
    name = site.cache(credentialsSecret=secret)
    assert "larder.dev/credentials=true" in site.wait_reason("ClusterModelCache", name, "AuthDenied")


def test_a_model_over_the_storage_limit_is_reported_with_numbers_and_does_not_block_others(site: Site) -> None:
    labels = {"small": site.name("s")}
    site.label("c", labels)
    group = site.group(labels, storageLimit=site.limit_with_room("c", 3 * 2**20))
    large = site.cache(site.push(size_bytes=8 * 2**20), group=group)
    small = site.cache(site.push(files={"weights.bin": b"x" * 2**20}), group=group)
    message = site.wait_reason("ClusterModelCache", large, "InsufficientStorage")
    assert "need" in message
    assert "limit" in message
    site.wait_ready("ClusterModelCache", small)

    path = f"/apis/serving.kserve.io/v1alpha1/modelcachenodegroups/{group}"
    site.api.patch(path, {"spec": {"storageLimit": "100Mi"}})
    site.wait_ready("ClusterModelCache", large)
    site.label("c", {"small": None})


def place_of(content: bytes) -> str:
    """Return the path, as in fnmatch, where the hub sends one for a large file."""
    return f"*{hashlib.sha256(content).hexdigest()}"


def test_a_digest_mismatch_is_reported_and_clears_once_the_source_is_right(site: Site) -> None:
    content = os.urandom(300_000)
    uri = site.push(files={"weights.safetensors": content, "config.json": b"{}"})
    site.hub.faults.add(Corrupt(), place_of(content))
    name = site.cache(uri)
    assert "expected" in site.wait_reason("ClusterModelCache", name, "DigestMismatch")
    assert f"model-cache-ready-{name}" not in site.labels("a")
    site.hub.faults.clear()
    site.wait_ready("ClusterModelCache", name)


def test_a_download_with_truncated_responses_resumes(site: Site) -> None:
    content = os.urandom(3_000_000)
    uri = site.push(files={"weights.safetensors": content})
    site.hub.faults.add(Truncate(1_000_000), place_of(content), times=3)
    name = site.cache(uri)
    revision = site.wait_ready("ClusterModelCache", name)["resolvedRevision"]
    assert (site.snapshot("a", name, revision) / "weights.safetensors").stat().st_size == 3_000_000
    asked = site.hub.journal.requests(place_of(content))
    assert any(seen.range and not seen.range.startswith("bytes=0-") for seen in asked)


def test_a_file_name_that_escapes_its_directory_is_reported_as_unsafe(site: Site) -> None:
    repo = site.name("org/escape")
    uri = site.push(files={"config.json": b"{}"}, repo=repo)
    content = site.folder / "passwd"
    content.write_bytes(b"root")
    site.hub.add_entry(repo, RepositoryFile("../../etc/passwd", 4, git_blob_id(b"root"), content))
    name = site.cache(uri)
    assert "../../etc/passwd" in site.wait_reason("ClusterModelCache", name, "UnsafePath")


def test_a_source_that_moves_after_it_was_resolved_is_resolved_again(site: Site) -> None:
    bucket = site.name("moving")
    site.s3.put(bucket, "m/weights.bin", b"old" * 1000)
    blocked = {"moved": site.name("m")}
    group = site.group(blocked)
    name = site.cache(f"s3://{bucket}/m", group=group, credentialsSecret=SECRET)
    site.until(lambda: "resolvedRevision" in site.status("ClusterModelCache", name), "the source to be resolved")
    before = site.status("ClusterModelCache", name)["resolvedRevision"]
    site.s3.put(bucket, "m/weights.bin", b"new" * 1000)
    site.label("c", blocked)  # only now does a node fetch what was resolved before
    status = site.wait_ready("ClusterModelCache", name)
    assert status["resolvedRevision"] != before
    root = site.snapshot("c", name, status["resolvedRevision"])
    assert (root / "weights.bin").read_bytes() == b"new" * 1000
    site.label("c", {"moved": None})


def of_a_secret_for_s3(site: Site, uri: str, **storage: object) -> str:
    """Create a Secret with an S3 key, and a namespaced model that names it; return the name of both."""
    name = str(site.name("m"))
    labels, key = {"larder.dev/credentials": "true"}, base64.b64encode(b"s3cret").decode()
    secret = {"metadata": {"name": name, "labels": labels}, "data": {"AWS_SECRET_ACCESS_KEY": key}}
    site.api.create(SECRETS, secret)
    model = {
        "apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": name},
        "spec": {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri, "key": name, **storage}},
    }  # fmt: skip
    site.api.create(MODELS, model)
    return name


def test_a_secret_with_keys_of_another_source_is_reported_and_not_sent(site: Site) -> None:
    uri = site.push(access=RepositoryAccess(frozenset({"t"})))
    name = of_a_secret_for_s3(site, uri)

    def message() -> str:
        conditions = site.api.get(f"{MODELS}/{name}").get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "Ready" and c["reason"] == "AuthDenied"), "")

    site.until(lambda: message() != "", "the model to be refused")
    assert "no credentials for hf://; add HF_TOKEN, or token to it" in message()
    repo = uri.removeprefix("hf://").partition("@")[0]
    assert site.hub.journal.requests(f"*{repo}*") == []


def test_a_secret_key_that_belongs_to_another_source_is_refused_at_creation(site: Site) -> None:
    with pytest.raises(CallRefused, match=r"secretKey names 'AWS_SECRET_ACCESS_KEY', which is not sent as a token"):
        of_a_secret_for_s3(site, site.push(), parameters={"secretKey": "AWS_SECRET_ACCESS_KEY"})

from rig.demo.parts import SECRET
from rig.larder.site import Site


def test_a_cache_is_ready_when_every_node_of_its_group_has_it(site: Site) -> None:
    uri = site.push()
    cache = site.cache(uri)
    status = site.wait_ready("ClusterModelCache", cache)
    assert status["nodeStatus"] == {"a": "ready", "b": "ready"}
    assert (status["ready"], status["nodesTotal"], status["nodesReadyCount"]) == ("2/2", 2, 2)
    assert status["size"] > 2**20
    assert status["observedGeneration"] == 1
    revision = status["resolvedRevision"]
    assert status["servingRevision"] == revision
    for node in ("a", "b"):
        assert site.labels(node)[f"model-cache-ready-{cache}"] == "true"
        assert (site.snapshot(node, cache, revision) / ".completed").exists()
        assert (site.snapshot(node, cache, revision) / "config.json").exists()
    assert f"model-cache-ready-{cache}" not in site.labels("c")
    assert site.entries("c", cache) == []


def test_a_base_model_is_downloaded_to_the_nodes_of_its_selector(site: Site) -> None:
    model = site.base_model(nodeSelector={"kubernetes.io/hostname": "c"})
    status = site.wait_ready("ClusterBaseModel", model)
    assert status["nodesReady"] == ["c"]
    assert status["ready"] == "1/1"
    site.delete("ClusterBaseModel", model)  # what node c holds counts for the limits of other tests
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to be gone")


def test_an_s3_prefix_is_fetched_with_credentials_from_a_labelled_secret(site: Site) -> None:
    bucket = site.name("bucket")
    site.s3.put(bucket, "models/m/config.json", b"{}")
    site.s3.put(bucket, "models/m/sub/weights.bin", b"w" * 100_000)
    site.s3.put(bucket, "models/m-other/config.json", b"no")
    cache = site.cache(f"s3://{bucket}/models/m/", credentialsSecret=SECRET)
    status = site.wait_ready("ClusterModelCache", cache)
    root = site.snapshot("a", cache, status["resolvedRevision"])
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    assert files == [".completed", "config.json", "sub/weights.bin"]
    assert (root / "sub/weights.bin").read_bytes() == b"w" * 100_000


def test_a_file_from_an_https_server_is_reported_as_verified_by_size(site: Site) -> None:
    site.web.files = {"/models/tiny.gguf": b"GGUF" * 50_000}
    cache = site.cache(f"{site.web_url}/models/tiny.gguf")
    revision = site.wait_ready("ClusterModelCache", cache)["resolvedRevision"]
    assert (site.snapshot("a", cache, revision) / "tiny.gguf").read_bytes() == b"GGUF" * 50_000
    entries = site.get("ModelNode", "a")["status"]["entries"]
    assert [e["verified"] for e in entries if e["id"] == cache] == ["size"]


def test_two_objects_share_an_entry_that_survives_the_deletion_of_one(site: Site) -> None:
    uri, name = site.push(), site.name("shared")
    site.cache(uri, name=name)
    site.base_model(f"{uri}@main", name=name, nodeSelector={"kubernetes.io/hostname": "a"})
    site.wait_ready("ClusterModelCache", name)
    site.wait_ready("ClusterBaseModel", name)
    both = [["ClusterBaseModel", "ClusterModelCache"]]
    site.until(lambda: site.claimants("a", name) == both, "both to claim one entry")

    site.delete("ClusterModelCache", name)
    site.until(lambda: site.is_gone("ClusterModelCache", name), "the cache to be gone")
    site.until(lambda: site.entries("b", name) == [], "node b to be cleaned")
    site.until(lambda: site.claimants("a", name) == [["ClusterBaseModel"]], "the base model alone to claim it")
    assert site.phases("a", name) == ["Ready"]
    assert site.labels("a")[f"model-cache-ready-{name}"] == "true"
    assert f"model-cache-ready-{name}" not in site.labels("b")


def test_a_second_object_with_the_same_id_but_another_source_is_a_conflict(site: Site) -> None:
    first, second, name = site.push(), site.push(), site.name("taken")
    site.cache(first, name=name)
    site.wait_ready("ClusterModelCache", name)
    site.base_model(second, name=name, nodeSelector={"gpu": "yes"})
    message = site.wait_reason("ClusterBaseModel", name, "NameConflict")
    assert f"ClusterModelCache {name}" in message
    assert first in message

    site.delete("ClusterModelCache", name)
    site.wait_ready("ClusterBaseModel", name)


def test_a_changed_uri_is_served_and_its_old_revision_removed(site: Site) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    old = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    second = site.push()
    path = f"/apis/ome.io/v1beta1/clusterbasemodels/{model}"
    site.api.patch(path, {"spec": {"storage": {"storageUri": second}}})
    site.until(lambda: site.status("ClusterBaseModel", model)["servingRevision"] != old, "the new revision to serve")
    for node in ("a", "b"):
        site.until(lambda: all(len(site.entries(n, model)) == 1 for n in ("a", "b")), "the old revision to be gone")
        assert not site.snapshot(node, model, old).exists()
        assert site.labels(node)[f"model-cache-ready-{model}"] == "true"


def test_models_on_claims_never_reach_a_node(site: Site) -> None:
    model = site.base_model("pvc://models/claim/llama")
    site.until(lambda: site.ready_condition("ClusterBaseModel", model).get("reason") == "PVCNotFound", "a status")
    assert all(site.entries(node, model) == [] for node in ("a", "b", "c"))


def test_a_disabled_model_is_not_downloaded(site: Site) -> None:
    name = site.name("disabled")
    storage = {"storageUri": site.push(), "nodeSelector": {"gpu": "yes"}}
    spec = {"disabled": True, "storage": storage, "modelFormat": {"name": "x"}}
    site.create("ClusterBaseModel", name, spec)
    site.until(lambda: site.ready_condition("ClusterBaseModel", name).get("reason") == "Disabled", "a status")
    assert site.entries("a", name) == []
    site.api.patch(f"/apis/ome.io/v1beta1/clusterbasemodels/{name}", {"spec": {"disabled": False}})
    site.wait_ready("ClusterBaseModel", name)


def test_unknown_fields_of_ome_are_kept(site: Site) -> None:
    name = site.name("ome")
    spec = {"storage": {"storageUri": "hf://a/b", "later": {"x": 1}}, "modelFormat": {"name": "x"}, "brandNew": [1, 2]}
    site.create("ClusterBaseModel", name, spec | {"disabled": True})
    site.until(lambda: bool(site.status("ClusterBaseModel", name)), "a status")
    found = site.get("ClusterBaseModel", name)["spec"]
    assert found["brandNew"] == [1, 2]
    assert found["storage"]["later"] == {"x": 1}

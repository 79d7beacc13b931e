"""Metadata of a model: read once from its source, kept in its status, and filled into its spec."""

import json
from typing import Any

from rig.demo.parts import SECRET
from rig.larder.objects import path_of
from rig.larder.site import Site
from tests.builders.archives import tar_gz
from tests.builders.model_files import safetensors
from tests.integration.system.conftest import Why

KIND, CACHE = "ClusterBaseModel", "ClusterModelCache"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "transformers_version": "4.50.0",
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096,
    "vocab_size": 1000,
    "hidden_size": 64,
}
HEADERS = "bytes=0-65535"  # of a file with weights; nodes request larger parts
FILLED = {
    "modelType": "llama",
    "modelArchitecture": "LlamaForCausalLM",
    "modelFramework": {"name": "transformers", "version": "4.50.0"},
    "modelParameterSize": "1.92M",
    "modelCapabilities": ["TEXT_TO_TEXT"],
    "maxTokens": 4096,
}


def repository(**config: object) -> dict[str, bytes]:
    """Return the files of a model of 1.92 million parameters in two shards."""
    shards = {
        f"model-0000{n}-of-00002.safetensors": safetensors({f"model.layers.{n}.w": ("BF16", (15_000, 64))})
        for n in (1, 2)
    }
    return {"config.json": json.dumps(CONFIG | config).encode(), **shards}


def reported(site: Site, kind: str, name: str) -> dict[str, Any]:
    """Return the condition for metadata, or an empty one."""
    conditions = site.status(kind, name).get("conditions", [])
    found: dict[str, Any] = next((c for c in conditions if c["type"] == "Metadata"), {})
    return found


def wait_reported(site: Site, kind: str, name: str, reason: str) -> dict[str, Any]:
    site.until(lambda: reported(site, kind, name).get("reason") == reason, f"{kind} {name} to report {reason}")
    return reported(site, kind, name)


def values(site: Site, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = site.status(kind, name).get("metadata", {}).get("values", {})
    return found


def readings(site: Site, uri: str) -> int:
    """Return the number of requests for the header of the first shard."""
    shard = f"/{uri.removeprefix('hf://')}/resolve/*/model-00001-of-00002.safetensors"
    return sum(seen.range == HEADERS for seen in site.hub.journal.requests(shard))


def declare(site: Site, uri: str, annotations: dict[str, str] | None = None, **spec: object) -> str:
    name = site.name("model")
    storage = {"storageUri": uri, "nodeSelector": {"metadata": name}}
    return site.create(KIND, name, {"storage": storage, **spec}, annotations=annotations or {})


def test_metadata_is_in_status_and_spec_before_any_node_has_the_model(site: Site, why: Why) -> None:
    name = declare(site, site.push(files=repository()))
    assert wait_reported(site, KIND, name, "Read")["status"] == "True"
    spec, found = site.get(KIND, name)["spec"], values(site, KIND, name)
    assert {field: spec.get(field) for field in FILLED} == FILLED
    assert spec["modelFormat"]["name"] == "safetensors"
    assert (found["parameters"], found["parametersFrom"], found["dtype"]) == (1_920_000, "headers", "bfloat16")
    site.until(lambda: site.status(KIND, name).get("ready") == "0/0", "no node to be counted")
    assert "LlamaForCausalLM, 1.92M parameters, bfloat16, 4,096 tokens of context" in why(f"cbm/{name}")


def test_fields_set_by_the_user_are_kept_and_the_others_are_filled(site: Site) -> None:
    mine: dict[str, Any] = {"modelType": "mine", "modelFormat": {"name": "mine"}, "modelCapabilities": ["CHAT"]}
    name = declare(site, site.push(files=repository()), **mine)
    wait_reported(site, KIND, name, "Read")
    spec = site.get(KIND, name)["spec"]
    assert {field: spec[field] for field in FILLED} == FILLED | {k: v for k, v in mine.items() if k in FILLED}
    assert spec["modelFormat"]["name"] == "mine"


def test_the_metadata_of_a_cache_is_reported_in_its_status(site: Site) -> None:
    name = site.cache(site.push(files=repository()))
    wait_reported(site, CACHE, name, "Read")
    assert values(site, CACHE, name)["architectures"] == ["LlamaForCausalLM"]
    site.wait_ready(CACHE, name)


def test_metadata_is_read_again_for_a_new_revision_but_not_for_another_node_or_leader(site: Site) -> None:
    uri = site.push(files=repository())
    name = declare(site, uri)
    wait_reported(site, KIND, name, "Read")
    for node in ("a", "c"):
        site.label(node, {"metadata": name})
    before = site.wait_ready(KIND, name)
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have the model")
    assert readings(site, uri) == 1
    for controller in site.cluster.controllers:
        controller.process.stop()
    for controller in site.cluster.controllers:
        controller.start()
    another = declare(site, site.push(files=repository()))
    site.until(lambda: reported(site, KIND, another).get("reason") == "Read", "a new leader to read a new model")
    assert readings(site, uri) == 1
    assert before["metadata"]["attempts"] == 1

    site.push(files=repository(max_position_embeddings=8192), repo=uri.removeprefix("hf://"))
    site.api.patch(path_of(KIND, name), {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
    site.until(lambda: values(site, KIND, name).get("contextLength") == 8192, "the new revision to be read")
    site.until(lambda: site.get(KIND, name)["spec"]["maxTokens"] == 8192, "the spec to follow")
    assert readings(site, uri) == 2
    for node in ("a", "c"):
        site.label(node, {"metadata": None})


def test_a_model_without_a_configuration_reports_why_and_can_be_used(site: Site, why: Why) -> None:
    uri = site.push(files={"notes.txt": b"x", "weights.bin": b"w" * 1000})
    name = declare(site, uri)
    site.label("a", {"metadata": name})
    message = wait_reported(site, KIND, name, "MetadataMissing")["message"]
    assert "config.json" in message
    assert "larder.dev/refresh" in message
    site.wait_ready(KIND, name)
    assert "MetadataMissing" in why(f"cbm/{name}")
    site.push(files=repository(), repo=uri.removeprefix("hf://"))
    site.api.patch(path_of(KIND, name), {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
    wait_reported(site, KIND, name, "Read")
    site.label("a", {"metadata": None})


def test_metadata_is_not_read_while_the_user_skips_it(site: Site) -> None:
    uri = site.push(files=repository())
    name = declare(site, uri, {"ome.io/skip-config-parsing": "true"})
    wait_reported(site, KIND, name, "Skipped")
    assert "modelType" not in site.get(KIND, name)["spec"]
    assert readings(site, uri) == 0
    site.api.patch(path_of(KIND, name), {"metadata": {"annotations": {"ome.io/skip-config-parsing": None}}})
    wait_reported(site, KIND, name, "Read")


def test_metadata_from_s3_is_read_with_the_credentials_of_the_model(site: Site) -> None:
    bucket = site.name("bucket")
    for path, body in repository().items():
        site.s3.put(bucket, f"m/{path}", body)
    name = site.cache(f"s3://{bucket}/m", credentialsSecret=SECRET)
    wait_reported(site, CACHE, name, "Read")
    assert values(site, CACHE, name)["parameters"] == 1_920_000


def archive(**config: object) -> bytes:
    """Return a tar.gz with such a model in a directory."""
    return tar_gz({f"m/{path}": body for path, body in repository(**config).items()})


def test_the_metadata_of_an_archive_comes_from_a_node_that_unpacked_it(site: Site, why: Why) -> None:
    site.web.files = {"/m.tar.gz": archive()}
    name = declare(site, f"{site.web_url}/m.tar.gz", modelType="mine")
    assert "can be read only after it is unpacked" in wait_reported(site, KIND, name, "MetadataMissing")["message"]
    site.label("a", {"metadata": name})
    assert "from the archive unpacked by node a" in wait_reported(site, KIND, name, "Read")["message"]
    spec, found = site.get(KIND, name)["spec"], values(site, KIND, name)
    assert {field: spec.get(field) for field in FILLED} == FILLED | {"modelType": "mine"}
    assert (found["parameters"], found["parametersFrom"], found["dtype"]) == (1_920_000, "headers", "bfloat16")
    assert "LlamaForCausalLM, 1.92M parameters, bfloat16, 4,096 tokens of context" in why(f"cbm/{name}")
    before = site.get(KIND, name)
    site.label("c", {"metadata": name})
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have the model")
    site.until(lambda: all("metadata" in status for _, status in site.listed(name).values()), "both nodes to report")
    assert site.get(KIND, name)["spec"] == before["spec"]
    assert site.status(KIND, name)["metadata"] == before["status"]["metadata"]


def test_nodes_that_report_different_metadata_are_named_and_neither_is_used(site: Site) -> None:
    site.web.files = {"/m.tar.gz": archive()}
    name = declare(site, f"{site.web_url}/m.tar.gz")
    site.label("a", {"metadata": name})
    site.label("c", {"metadata": name})
    wait_reported(site, KIND, name, "Read")
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have the model")
    site.until(lambda: all("metadata" in status for _, status in site.listed(name).values()), "both nodes to report")
    with site.cluster.without_agent("a"):  # anyone with the agent's token can write this status
        forge(site, "a", name, modelType="forged")
        message = wait_reported(site, KIND, name, "MetadataConflict")["message"]
        assert "nodes a and c report different metadata" in message
        site.until(lambda: not FILLED.keys() & site.get(KIND, name)["spec"].keys(), "the spec to be as it was written")
        assert values(site, KIND, name) == {}


def test_the_metadata_of_the_only_node_is_ignored_once_it_changes(site: Site) -> None:
    site.web.files = {"/m.tar.gz": archive()}
    name = declare(site, f"{site.web_url}/m.tar.gz")
    site.label("a", {"metadata": name})
    wait_reported(site, KIND, name, "Read")
    with site.cluster.without_agent("a"):
        forge(site, "a", name, modelType="forged")
        message = wait_reported(site, KIND, name, "MetadataConflict")["message"]
        assert "node a reported different metadata" in message
        site.until(lambda: not FILLED.keys() & site.get(KIND, name)["spec"].keys(), "the spec to be as it was written")
        before = site.status(KIND, name)["metadata"]
        forge(site, "a", name, modelType="forged once more")
        wait_for_another_model(site)
        assert site.status(KIND, name)["metadata"] == before
        assert not FILLED.keys() & site.get(KIND, name)["spec"].keys()


def test_metadata_from_a_node_that_does_not_hold_the_model_is_ignored(site: Site) -> None:
    site.web.files = {"/m.tar.gz": archive()}
    name = declare(site, f"{site.web_url}/m.tar.gz")
    wait_reported(site, KIND, name, "MetadataMissing")
    site.label("a", {"metadata": name})
    wait_reported(site, KIND, name, "Read")
    ((_, reported_by_a),) = site.listed(name).values()
    forged = reported_by_a | {"metadata": reported_by_a["metadata"] | {"values": {"layers": 9}}}
    with site.cluster.without_agent("c"):
        site.api.patch(f"{path_of('ModelNode', 'c')}/status", {"status": {"entries": [*entries_of(site, "c"), forged]}})
        wait_for_another_model(site)
        assert reported(site, KIND, name)["reason"] == "Read"
        assert values(site, KIND, name)["modelType"] == "llama"


def forge(site: Site, node: str, model: str, **values: object) -> None:
    """Change the metadata that a node without an agent reports, as anyone with the agent's token can."""
    found = entries_of(site, node)
    for entry in found:
        if entry["id"] == model:
            entry["metadata"]["values"] |= values
    site.api.patch(f"{path_of('ModelNode', node)}/status", {"status": {"entries": found}})


def entries_of(site: Site, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.api.get(path_of("ModelNode", node))["status"].get("entries", [])
    return found


def wait_for_another_model(site: Site) -> None:
    """Wait until the controller has read a model declared now, so it has also seen all earlier changes."""
    wait_reported(site, KIND, declare(site, site.push(files=repository())), "Read")

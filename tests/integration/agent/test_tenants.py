"""Two tenants on one node: files fetched with the credentials of one are not given to the other."""

import msgspec

from rig.hub.repository import RepositoryAccess, RepositoryFile
from shared.api.wire import ClaimCredentials
from shared.manifest import Manifest
from tests.integration.agent.node_under_test import Bench, Model

TOKEN = "hf_of_team_a"
FILES = {"config.json": b'{"secret": "recipe"}', "model.safetensors": b"private weights" * 10_000}


def private_model(bench: Bench) -> Model:
    """Return a stored model of team-a, from a repository that only its token can read."""
    model = bench.add_model("team-a_model", FILES)
    repo = model.manifest.uri.removeprefix("hf://").partition("@")[0]
    bench.hub.push(
        repo, bench.state / "pushed" / "team-a_model", access=RepositoryAccess(frozenset({TOKEN}), gated=True)
    )
    bench.controller.grants[model.entry.key] = (ClaimCredentials("uid-a", {"HF_TOKEN": TOKEN}, ()),)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    return model


def of_team_b(model: Model, manifest: Manifest, bench: Bench) -> Model:
    """Return a model of team-b, for which the controller has no credentials, with this list of files."""
    digest = bench.controller.offer(manifest)
    entry = msgspec.structs.replace(
        model.entry, id="team-b_model", uri=manifest.uri, revision=manifest.revision, manifest=digest
    )
    return Model(entry, manifest, model.files)


def test_a_tenant_without_credentials_is_refused_a_private_repository_already_stored(bench: Bench) -> None:
    theirs = private_model(bench)
    stolen = of_team_b(theirs, theirs.manifest, bench)
    bench.want(theirs.entry, stolen.entry)
    bench.wait_phase(stolen, "Failed", "AuthDenied")
    assert not bench.snapshot(stolen).exists()
    assert not bench.expected_labels(stolen) & bench.labels()
    assert bench.has_labels(theirs)


def test_a_forged_manifest_with_digests_of_another_tenant_does_not_expose_stored_files(bench: Bench) -> None:
    theirs = private_model(bench)
    own = bench.add_model("own", {"README.md": b"mine"})
    repo = own.manifest.uri.removeprefix("hf://").partition("@")[0]
    listed = {f.path: f for f in theirs.manifest.files}["config.json"]
    other = bench.state / "other"
    other.write_bytes(b"x" * listed.size)
    false = RepositoryFile(listed.path, listed.size, listed.digest.removeprefix("git-sha1:"), other)
    bench.hub.add_entry(repo, false)
    stolen = of_team_b(theirs, Manifest(own.manifest.uri, own.manifest.revision, (listed,)), bench)
    bench.want(theirs.entry, stolen.entry)
    bench.wait_phase(stolen, "Failed", "DigestMismatch")
    assert not bench.snapshot(stolen).exists()


def test_a_manifest_that_reuses_a_stored_revision_does_not_expose_another_source(bench: Bench) -> None:
    theirs = private_model(bench)
    own = bench.add_model("own", {"README.md": b"mine"})
    held = of_team_b(theirs, own.manifest, bench)
    bench.want(theirs.entry, held.entry)
    bench.wait_phase(held, "Ready")
    disguised = Manifest(theirs.manifest.uri, own.manifest.revision, theirs.manifest.files)
    stolen = of_team_b(theirs, disguised, bench)
    assert stolen.entry.key == held.entry.key
    bench.want(theirs.entry, stolen.entry)
    bench.wait_for(lambda: _reason(bench, stolen) == "AuthDenied", "the source to deny access")
    assert not (bench.snapshot(stolen) / "model.safetensors").exists()


def _reason(bench: Bench, model: Model) -> str:
    found = bench.status(model.entry)
    return found.reason if found else ""

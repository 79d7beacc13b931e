"""The hub of the rig, tested with the client library of the real hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import httpx2
import pytest
from huggingface_hub import HfApi, errors, set_client_factory, snapshot_download
from huggingface_hub.hf_api import RepoFile

from rig.hub import Corrupt, Hub, Refuse, RepositoryAccess, RepositoryFile, Stall, Truncate
from rig.hub.repository import git_blob_id
from rig.model import write_model

SIZE = 256 * 1024
LARGE = "model-00001-of-00002.safetensors"


@pytest.fixture(autouse=True)
def _plain_client() -> None:
    """Reset the library's HTTP client, which other tests in this process may have replaced."""
    set_client_factory(lambda: httpx2.Client(follow_redirects=True, timeout=60))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), size_bytes=SIZE, shards=2)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub") as running:
        yield running


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _link(hub: Hub, path: str = LARGE) -> str:
    return httpx.get(f"{hub.endpoint}/acme/llama/resolve/main/{path}", timeout=60).headers["Location"]


def test_a_snapshot_is_complete_and_the_token_is_sent_only_to_the_hub(hub: Hub, model: Path, tmp_path: Path) -> None:
    hub.push("acme/llama", model, access=RepositoryAccess(frozenset({"hf_good"})))
    snapshot_download("acme/llama", endpoint=hub.endpoint, token="hf_good", local_dir=tmp_path / "got")
    assert _contents(tmp_path / "got") == _contents(model)
    assert hub.journal.requests(host="cdn")
    assert hub.journal.authorizations("hub") == {"Bearer hf_good"}
    assert hub.journal.authorizations("cdn") == set()


def test_model_info_names_the_commit_and_the_files(hub: Hub, model: Path) -> None:
    commit = hub.push("acme/llama", model)
    info = HfApi(endpoint=hub.endpoint, token=False).model_info("acme/llama", files_metadata=True)
    assert info.sha == commit
    assert {one.rfilename for one in info.siblings or []} == set(_contents(model))


def test_the_tree_is_paged_and_lists_git_and_lfs_digests(hub: Hub, model: Path) -> None:
    commit = hub.push("acme/llama", model)
    hub.page_size = 2
    api = HfApi(endpoint=hub.endpoint, token=False)
    listed = [
        one for one in api.list_repo_tree("acme/llama", recursive=True, revision=commit) if isinstance(one, RepoFile)
    ]
    assert {one.path: one.size for one in listed} == {name: len(data) for name, data in _contents(model).items()}
    assert len(hub.journal.requests("/api/models/acme/llama/tree/*")) == 5
    by_path = {one.path: one for one in listed}
    large, small = by_path[LARGE].lfs, by_path["config.json"]
    assert large is not None
    assert large.size == (model / LARGE).stat().st_size
    assert small.lfs is None
    assert small.blob_id == git_blob_id((model / "config.json").read_bytes())


def test_an_old_commit_stays_available_after_its_branch_moves(hub: Hub, model: Path, tmp_path: Path) -> None:
    first = hub.push("acme/llama", model)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text("{}")
    second = hub.push("acme/llama", tmp_path / "new")
    api = HfApi(endpoint=hub.endpoint, token=False)
    assert api.model_info("acme/llama").sha == second != first
    assert api.model_info("acme/llama", revision=first).sha == first


@pytest.mark.parametrize(
    ("token", "gated", "expected"),
    [
        (False, False, errors.RepositoryNotFoundError),
        (False, True, errors.GatedRepoError),
        ("hf_other", False, errors.RepositoryNotFoundError),
        ("hf_other", True, errors.GatedRepoError),
        ("hf_unheard_of", False, errors.HfHubHTTPError),
    ],
)
def test_private_and_gated_repositories_raise_the_errors_of_the_real_hub(
    hub: Hub, model: Path, token: str | Literal[False], gated: Literal[True, False], expected: type[Exception]
) -> None:
    hub.push("acme/llama", model, access=RepositoryAccess(frozenset({"hf_good"}), gated=gated))
    hub.push("acme/other", model, access=RepositoryAccess(frozenset({"hf_other"})))
    with pytest.raises(errors.HfHubHTTPError) as error:
        HfApi(endpoint=hub.endpoint, token=token).model_info("acme/llama")
    assert type(error.value) is expected


def test_missing_repositories_revisions_and_files_raise_distinct_errors(hub: Hub, model: Path) -> None:
    hub.push("acme/llama", model)
    api = HfApi(endpoint=hub.endpoint, token=False)
    with pytest.raises(errors.RepositoryNotFoundError):
        api.model_info("acme/nothing")
    with pytest.raises(errors.RevisionNotFoundError):
        api.model_info("acme/llama", revision="v9")
    with pytest.raises(errors.RemoteEntryNotFoundError):
        api.hf_hub_download("acme/llama", "nothing.json")


def test_links_work_until_they_expire_and_refuse_tokens(hub: Hub, model: Path) -> None:
    hub.push("acme/llama", model)
    link = _link(hub)
    assert httpx.get(link, headers={"Range": "bytes=0-7"}, timeout=60).content == (model / LARGE).read_bytes()[:8]
    assert httpx.get(link, headers={"Authorization": "Bearer hf_good"}, timeout=60).status_code == 400
    hub.expire_links()
    assert httpx.get(link, timeout=60).status_code == 403
    assert httpx.get(_link(hub), timeout=60).status_code == 200


def test_ranges_at_and_beyond_the_end_are_answered_correctly(hub: Hub, model: Path) -> None:
    hub.push("acme/llama", model)
    link, data = _link(hub), (model / LARGE).read_bytes()
    tail = httpx.get(link, headers={"Range": f"bytes={len(data) - 3}-{len(data) + 99}"}, timeout=60)
    assert (tail.status_code, tail.content) == (206, data[-3:])
    assert tail.headers["Content-Range"] == f"bytes {len(data) - 3}-{len(data) - 1}/{len(data)}"
    beyond = httpx.get(link, headers={"Range": f"bytes={len(data)}-"}, timeout=60)
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, f"bytes */{len(data)}")


def test_faults_are_injected_on_demand(hub: Hub, model: Path) -> None:
    hub.push("acme/llama", model)
    link, data = _link(hub), (model / LARGE).read_bytes()
    hub.faults.add(Truncate(1000), times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(link, timeout=60)
    hub.faults.add(Corrupt(5), times=1)
    assert httpx.get(link, timeout=60).content == data[:5] + bytes([data[5] ^ 0xFF]) + data[6:]
    hub.faults.add(Refuse(429, retry_after_s=7), path="/api/models/*", times=1)
    assert httpx.get(f"{hub.endpoint}/api/models/acme/llama", timeout=60).headers["Retry-After"] == "7"
    hub.faults.add(Stall(10))
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(link, timeout=httpx.Timeout(60, read=0.3))
    hub.reset()
    assert httpx.get(link, timeout=60).content == data


def test_an_entry_with_a_false_size_or_digest_is_served_as_configured(hub: Hub, model: Path, tmp_path: Path) -> None:
    hub.push("acme/llama", model)
    (tmp_path / "evil").write_bytes(b"evil")
    hub.add_entry("acme/llama", RepositoryFile("../evil", 4, "0" * 40, tmp_path / "evil"))
    tree = httpx.get(f"{hub.endpoint}/api/models/acme/llama/tree/main?recursive=true", timeout=60).json()
    assert "../evil" in {one["path"] for one in tree}

"""The source for Git repositories with Git's own server, beyond the conformance suite."""

import json
import ssl
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from rig.git_server import GitServer
from rig.scripted_http import ScriptedRequest, ScriptedServer, reply, scripted
from shared.errors import (
    AddressRefused,
    AuthDenied,
    InvalidURI,
    LarderError,
    RevisionNotFound,
    SourceNotFound,
    TooManyFiles,
    UnsafePath,
)
from shared.manifest import File, Manifest
from shared.sources.gitlfs import protocol
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.readers.sources import drain

LARGE = bytes(range(256)) * 1024
FILES = {"config.json": b"{}", "weights/model.safetensors": LARGE}


@dataclass
class Git:
    """A Git server with TLS, and sources of its repositories."""

    repositories: GitServer
    server: ScriptedServer
    settings: SourceSettings
    opened: list[Source] = field(default_factory=list)

    def source(self, repo: str, ref: str = "main", credentials: Credentials = ANONYMOUS) -> Source:
        place = self.server.url.removeprefix("https://")
        made = open_source(parse_uri(f"git+https://{place}/{repo}?ref={ref}"), credentials, self.settings)
        self.opened.append(made)
        return made

    def resolve(self, repo: str, ref: str = "main") -> Manifest:
        return self.source(repo, ref).resolve()


@pytest.fixture
def git(tmp_path: Path) -> Iterator[Git]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    repositories = GitServer(tmp_path / "git")
    settings = SourceSettings(allow_addresses=("127.0.0.1/32",), ca_bundle=str(tmp_path / "ca.pem"))
    with scripted(repositories.answer, tls) as server:
        repositories.url = server.url
        made = Git(repositories, server, settings)
        yield made
        for source in made.opened:
            source.close()


def test_branches_tags_and_commits_are_resolved_to_a_commit(git: Git) -> None:
    first = git.repositories.push("m", FILES)
    git.repositories.git("m", "tag", "--annotate", "--message", "one", "v1")
    git.repositories.git("m", "push", "--quiet", str(git.repositories.bare("m")), "v1")
    second = git.repositories.push("m", FILES | {"config.json": b"[]"}, branch="feat/x")
    revisions = {ref: git.resolve("m.git", ref).revision for ref in ("main", "v1", "feat/x", first)}
    assert revisions == {"main": first, "v1": first, "feat/x": second, first: first}
    manifest = git.resolve("m.git")
    assert manifest.uri.endswith(f"/m.git?ref={first}")
    assert {file.path: file.size for file in manifest.files} == {path: len(body) for path, body in FILES.items()}
    with pytest.raises(RevisionNotFound):
        git.resolve("m.git", "gone")
    with pytest.raises(RevisionNotFound):
        git.resolve("m.git", "ab" * 20)


def test_ranges_are_read_from_git_and_lfs_with_a_single_batch_request(git: Git) -> None:
    git.repositories.push("m", FILES)
    source = git.source("m.git")
    config, weights = source.resolve().files
    assert (drain(source, config, 1, 1), drain(source, weights, 1000, 500)) == (b"}", LARGE[1000:1500])
    batches = [asked for asked in git.server.asked if asked.target.endswith("/objects/batch")]
    drain(source, weights)
    assert len([asked for asked in git.server.asked if asked.target.endswith("/objects/batch")]) == len(batches) == 1


def test_only_the_latest_of_many_versions_of_a_file_is_fetched(git: Git) -> None:
    for number in range(20):
        git.repositories.push("m", {"a.txt": b"%d\n" % number * 200})
    source = git.source("m.git")
    assert drain(source, source.resolve().files[0]) == b"19\n" * 200


def test_an_lfs_object_that_was_never_pushed_is_reported_with_a_remedy(git: Git) -> None:
    git.repositories.push("m", FILES)
    git.repositories.forget(LARGE)
    source = git.source("m.git")
    with pytest.raises(SourceNotFound, match=r"weights/model\.safetensors.*git lfs push"):
        drain(source, source.resolve().files[1])


def test_a_link_in_a_repository_is_refused(git: Git, tmp_path: Path) -> None:
    git.repositories.push("m", FILES)
    work = tmp_path / "git" / "work" / "m"
    (work / "link").symlink_to("/etc/passwd")
    git.repositories.git("m", "add", "link")
    git.repositories.git("m", "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--message", "link")
    git.repositories.git("m", "push", "--quiet", str(git.repositories.bare("m")), "HEAD:main")
    with pytest.raises(UnsafePath):
        git.resolve("m.git")


def test_a_repository_with_its_weights_outside_lfs_is_refused(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    git.repositories.push("m", {f"{number}": b"%d" % number * 100 for number in range(100)})
    monkeypatch.setattr(protocol, "LONGEST_PACK_BYTES", 1024)
    with pytest.raises(TooManyFiles, match="git lfs migrate"):
        git.resolve("m.git")


def test_a_token_is_not_sent_to_another_host_after_a_redirect(git: Git) -> None:
    git.repositories.push("m", FILES, token="secret")
    answer = git.repositories.answer
    with scripted(lambda _: reply(404)) as other:

        def redirecting(asked: ScriptedRequest) -> bytes:
            if asked.target.startswith("/old.git"):
                return reply(301, Location=f"{git.server.url}/m.git{asked.target.removeprefix('/old.git')}")
            if asked.target.startswith("/away.git"):
                return reply(301, Location=f"{other.url}{asked.target}")
            return answer(asked)

        git.server.answer = redirecting
        credentials = Credentials({"token": "secret"}, (git.server.url.removeprefix("https://"),))
        assert len(git.source("old.git", credentials=credentials).resolve().files) == 2
        with pytest.raises(LarderError):
            git.source("away.git", credentials=credentials).resolve()
    assert not [asked for asked in other.asked if "authorization" in asked.headers]


def test_a_token_for_another_host_is_not_sent(git: Git) -> None:
    git.repositories.push("m", FILES, token="secret")
    with pytest.raises(AuthDenied, match=r"larder\.dev/hosts"):
        git.source("m.git", credentials=Credentials({"token": "secret"}, ("elsewhere.example",))).resolve()
    assert not [asked for asked in git.server.asked if "authorization" in asked.headers]


@pytest.mark.parametrize(
    ("login", "values"),
    [
        ("oauth2:s3cret", {"token": "s3cret"}),
        ("robot:s3cret", {"token": "s3cret", "username": "robot"}),
        ("robot:s3cret", {"username": "robot", "password": "s3cret"}),
    ],
)
def test_a_private_repository_is_read_only_with_a_complete_login(git: Git, login: str, values: dict[str, str]) -> None:
    git.repositories.push("m", FILES, token=login)
    source = git.source("m.git", credentials=Credentials(values, (git.server.url.removeprefix("https://"),)))
    for file in source.resolve().files:
        assert drain(source, file) == FILES[file.path]
    with pytest.raises(AuthDenied, match="the key token, or username and password") as without:
        git.resolve("m.git")
    half = Credentials({"username": "robot"}, (git.server.url.removeprefix("https://"),))
    with pytest.raises(AuthDenied, match="username but not password"):
        git.source("m.git", credentials=half)
    assert "s3cret" not in str(without.value)


def test_an_lfs_server_cannot_send_downloads_to_plain_http_or_private_addresses(git: Git) -> None:
    git.repositories.push("m", FILES)
    source, answer = git.source("m.git"), git.repositories.answer
    weights = source.resolve().files[1]
    for href in ("http://127.0.0.1:1/x", "https://10.0.0.1/x", "https://169.254.169.254/latest/meta-data"):
        action = {"oid": weights.digest.partition(":")[2], "actions": {"download": {"href": href}}}
        body = json.dumps({"objects": [action]}).encode()
        git.server.answer = lambda asked, body=body: (  # type: ignore[misc]
            reply(200, body) if asked.target.endswith("/batch") else answer(asked)
        )
        with pytest.raises(AddressRefused):
            drain(source, weights)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"objects": [{"oid": 1}]}', b'{"objects": []}', b" " * 40_000])
def test_a_malformed_answer_of_an_lfs_server_is_an_error(git: Git, body: bytes) -> None:
    git.repositories.push("m", FILES)
    source, answer = git.source("m.git"), git.repositories.answer
    weights = source.resolve().files[1]
    git.server.answer = lambda asked: reply(200, body) if asked.target.endswith("/batch") else answer(asked)
    with pytest.raises(LarderError):
        drain(source, weights)


def test_the_links_of_an_lfs_server_cannot_fill_the_memory(git: Git) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if not asked.target.endswith("/batch"):
            return reply(200, b"x")
        oid = json.loads(asked.body)["objects"][0]["oid"]
        href = f"{git.server.url}/{oid}?{'x' * 31_000}"
        return reply(200, json.dumps({"objects": [{"oid": oid, "actions": {"download": {"href": href}}}]}).encode())

    git.server.answer = answer
    source = git.source("m.git")
    files = [File(f"{number}.bin", 1, f"sha256:{number:064x}") for number in range(600)]
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(16) as threads:
            assert set(threads.map(lambda file: drain(source, file), files)) == {b"x"}
        git.server.asked.clear()
        assert tracemalloc.get_traced_memory()[0] < 12 * 2**20
    finally:
        tracemalloc.stop()


def test_an_address_without_a_repository_is_refused(git: Git) -> None:
    git.server.answer = lambda _: reply(200, b"<html>", Content_Type="text/html")
    with pytest.raises(InvalidURI, match="not a Git repository"):
        git.resolve("m.git")


def test_the_listed_files_match_a_real_clone(git: Git) -> None:
    git.repositories.push("m", {f"d{number % 7}/f{number}.txt": b"line\n" * number for number in range(150)})
    git.repositories.git("m", "clone", "--quiet", "--depth=1", f"file://{git.repositories.bare('m')}", "clone")
    listed = git.repositories.git("m", "-C", "clone", "ls-tree", "-r", "--format=%(path) %(objectname)", "HEAD")
    found = {f"{file.path} {file.digest.partition(':')[2]}" for file in git.resolve("m.git").files}
    assert set(listed.decode().splitlines()) == found

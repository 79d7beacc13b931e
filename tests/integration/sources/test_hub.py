from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rig.hub import Corrupt, Hub, Refuse, RepositoryAccess, RepositoryFile, Stall, Truncate
from rig.processes import wait_until
from shared.errors import (
    AddressRefused,
    AuthDenied,
    LarderError,
    RateLimited,
    RevisionNotFound,
    SourceNotFound,
    Unreachable,
    UnsafePath,
)
from shared.manifest import File, Manifest
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.readers.sources import drain

REPO = "org/model"
WEIGHTS = bytes(range(256)) * 400
GOOD = Credentials({"HF_TOKEN": "hf_good"})
Open = Callable[..., Source]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    return folder


@pytest.fixture
def open_repo(hub: Hub) -> Iterator[Open]:
    with ExitStack() as stack:

        def make(
            revision: str = "main",
            credentials: Credentials = ANONYMOUS,
            allow: tuple[str, ...] = ("127.0.0.1",),
            read_timeout_s: float = 30,
        ) -> Source:
            settings = SourceSettings(hf_endpoint=hub.endpoint, allow_addresses=allow, read_timeout_s=read_timeout_s)
            source = open_source(parse_uri(f"hf://{REPO}@{revision}"), credentials, settings)
            stack.callback(source.close)
            return source

        yield make


def weights_of(source: Source) -> File:
    return next(f for f in source.resolve().files if f.path == "model.safetensors")


def test_pins_a_branch_to_its_commit(hub: Hub, folder: Path, open_repo: Open) -> None:
    commit = hub.push(REPO, folder)
    manifest = open_repo().resolve()
    assert (manifest.uri, manifest.revision) == (f"hf://{REPO}@{commit}", commit)
    digests = {f.path: f.digest.partition(":")[0] for f in manifest.files}
    assert digests == {"config.json": "git-sha1", "model.safetensors": "sha256"}


def test_a_resolved_revision_does_not_change_when_its_branch_moves(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder)
    source = open_repo()
    file = weights_of(source)
    (folder / "model.safetensors").write_bytes(b"moved")
    hub.push(REPO, folder)
    assert drain(source, file) == WEIGHTS
    assert weights_of(open_repo()).size == 5


def test_branches_with_slashes_and_commits_are_revisions(hub: Hub, folder: Path, open_repo: Open) -> None:
    commit = hub.push(REPO, folder, "refs/pr/1")
    assert open_repo("refs/pr/1").resolve() == open_repo(commit).resolve()


def test_lists_every_page(hub: Hub, folder: Path, open_repo: Open) -> None:
    for number in range(25):
        (folder / f"part-{number:02}.json").write_bytes(b"%d" % number)
    hub.push(REPO, folder)
    hub.page_size = 10
    assert len(open_repo().resolve().files) == 27


def test_the_token_is_sent_to_the_hub_and_never_to_its_cdn(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess(frozenset({"hf_good"})))
    hub.journal.clear()
    source = open_repo(credentials=GOOD)
    assert drain(source, weights_of(source), 1000) == WEIGHTS[1000:]
    sent = {(seen.host, seen.authorization) for seen in hub.journal.requests()}
    assert sent == {("hub", "Bearer hf_good"), ("cdn", None)}


def test_a_token_of_the_environment_is_not_used_without_a_secret(
    hub: Hub, folder: Path, open_repo: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    monkeypatch.setenv("HF_TOKEN", "from-the-environment")
    hub.journal.clear()
    open_repo().resolve()
    assert {seen.authorization for seen in hub.journal.requests()} == {None}


@pytest.mark.parametrize(
    ("access", "token", "error", "phrase"),
    [
        (RepositoryAccess(frozenset({"hf_good"})), "", AuthDenied, "it is private or does not exist"),
        (RepositoryAccess(frozenset({"hf_good"})), "hf_bad", AuthDenied, "refuses these credentials"),
        (RepositoryAccess(frozenset({"hf_good"}), gated=True), "", AuthDenied, "accept its terms"),
        (RepositoryAccess(frozenset({"hf_good"}), gated=True), "hf_bad", AuthDenied, "refuses these credentials"),
    ],
)
def test_users_without_access_are_refused_with_advice(
    hub: Hub, folder: Path, open_repo: Open, access: RepositoryAccess, token: str, error: type[LarderError], phrase: str
) -> None:
    commit = hub.push(REPO, folder, access=access)
    source = open_repo(commit, Credentials({"HF_TOKEN": token}))
    for act in (source.resolve, lambda: source.open(File("config.json", 2))):
        with pytest.raises(error, match=phrase):
            act()


def test_a_missing_revision_or_file_is_reported_as_not_found(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    with pytest.raises(RevisionNotFound, match="never"):
        open_repo("never").resolve()
    with pytest.raises(RevisionNotFound):
        open_repo("never").open(File("config.json", 2))
    with pytest.raises(SourceNotFound, match="absent"):
        open_repo().open(File("absent.json", 2))


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", ".completed"])
def test_unsafe_and_reserved_file_names_are_refused(hub: Hub, folder: Path, open_repo: Open, path: str) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    hub.add_entry(REPO, RepositoryFile(path, 2, "0" * 40, folder / "config.json"))
    with pytest.raises(UnsafePath, match=path):
        open_repo().resolve()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Refuse(429, 7), RateLimited),
        (Refuse(503, 7), RateLimited),
        (Refuse(429), RateLimited),
        (Refuse(500), Unreachable),
    ],
)
@pytest.mark.parametrize("path", ["/api/models/*/revision/*", "/api/models/*/tree/*"])
def test_a_refused_listing_is_reported_without_a_retry(
    hub: Hub, folder: Path, open_repo: Open, fault: Refuse, error: type[LarderError], path: str
) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    hub.journal.clear()
    hub.faults.add(fault, path)
    with pytest.raises(error) as caught:
        open_repo().resolve()
    assert getattr(caught.value, "after_s", None) in ({7.0, 30.0} if error is RateLimited else {None})
    assert len(hub.journal.requests()) <= 2


@pytest.mark.parametrize("status", [429, 503])
def test_no_request_follows_a_rate_limited_listing_until_its_time_is_over(
    hub: Hub, folder: Path, open_repo: Open, status: int
) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo()
    hub.journal.clear()
    hub.faults.add(Refuse(status, 300), "/api/models/*", times=1)
    for act in (source.resolve, source.resolve, lambda: source.open(File("config.json", 2))):
        with pytest.raises(RateLimited, match=r"^127\.0\.0\.1 asks to wait \d+ s \(until ") as caught:
            act()
        assert 0 < caught.value.after_s <= 300
    assert len(hub.journal.requests()) == 1


def test_a_listing_respects_the_wait_requested_for_a_file(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo()
    hub.journal.clear()
    hub.faults.add(Refuse(429, 300), "*/resolve/*", times=1)
    for act in (lambda: source.open(File("config.json", 2)), source.resolve):
        with pytest.raises(RateLimited):
            act()
    assert len(hub.journal.requests()) == 1


def test_a_listing_succeeds_once_the_requested_wait_is_over(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo()
    hub.faults.add(Refuse(429, 0.2), "/api/models/*", times=1)
    with pytest.raises(RateLimited):
        source.resolve()
    found: list[Manifest] = []

    def listed() -> bool:
        with suppress(RateLimited):
            found.append(source.resolve())
        return bool(found)

    wait_until(listed, 60, "the hub to be listed again")
    assert "config.json" in {f.path for f in found[0].files}


def test_a_refused_file_is_reported(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo()
    file = weights_of(source)
    hub.faults.add(Refuse(429, 3), "*/resolve/*")
    with pytest.raises(RateLimited) as caught:
        source.open(file)
    assert caught.value.after_s == 3


@pytest.mark.parametrize("fault", [Truncate(1000), Stall(1000)])
def test_a_truncated_or_stalled_body_resumes_where_it_stopped(
    hub: Hub, folder: Path, open_repo: Open, fault: Truncate | Stall
) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo(read_timeout_s=3)
    file = weights_of(source)
    hub.faults.add(fault, times=1)
    body, buffer = source.open(file), memoryview(bytearray(1 << 16))
    got = bytes(buffer[: body.readinto(buffer)])
    with pytest.raises(Unreachable):
        body.readinto(buffer)
    body.close()
    assert len(got) == 1000
    assert got + drain(source, file, len(got)) == WEIGHTS


def test_wrong_bytes_are_passed_on_without_verification(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo()
    file = weights_of(source)
    hub.faults.add(Corrupt(5))
    assert drain(source, file) != WEIGHTS


def test_a_content_server_at_an_address_that_is_not_allowed_is_refused(hub: Hub, folder: Path, open_repo: Open) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    source = open_repo(allow=())
    with pytest.raises(AddressRefused, match="LARDER_ALLOW_ADDRESSES"):
        source.open(weights_of(source))


def test_an_unreachable_or_invalid_hub_is_reported(hub: Hub, folder: Path) -> None:
    hub.push(REPO, folder, access=RepositoryAccess())
    for endpoint, phrase in (("http://127.0.0.1:9", "cannot be listed"), (hub.store_endpoint, "status|wants")):
        source = open_source(parse_uri(f"hf://{REPO}"), ANONYMOUS, SourceSettings(hf_endpoint=endpoint))
        with pytest.raises(LarderError, match=phrase):
            source.resolve()
        source.close()

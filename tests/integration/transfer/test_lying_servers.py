"""Servers that send false responses, close connections early, stall or change their files, over real sockets."""

import gzip
import hashlib
import random
import re
import ssl
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import trustme

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from rig.processes import wait_until
from rig.scripted_http import Answer, Reset, ScriptedRequest, reply, scripted
from shared.errors import AddressRefused, DigestMismatch, LarderError, RateLimited, SourceChanged, Unreachable
from shared.manifest import File, Manifest
from shared.sources.port import ANONYMOUS
from shared.sources.retry import RetryPolicy
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

BODY = random.Random(1).randbytes(1_000_000)
OTHER = random.Random(2).randbytes(len(BODY))
HALF = len(BODY) // 2
CLOSING = b"\r\nConnection: close\r\n\r\n"
URI, REVISION = "hf://test/model", "0" * 40
SHA256 = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


def right(asked: ScriptedRequest, body: bytes = BODY, **headers: str) -> bytes:
    """Return the correct response."""
    part = re.match(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
    if not part:
        return reply(200, body, **headers)
    start, end = int(part[1]), int(part[2] or len(body) - 1)
    return reply(206, body[start : end + 1], Content_Range=f"bytes {start}-{end}/{len(body)}", **headers)


def packed(asked: ScriptedRequest, body: bytes = BODY) -> bytes:
    """Return the response of a server that compresses although it was asked not to."""
    head, _, part = right(asked, body).partition(b"\r\n\r\n")
    ranges = {"Content_Range": found[1].decode()} if (found := re.search(rb"Content-Range: (.*)", head)) else {}
    return reply(206 if ranges else 200, gzip.compress(part[:1000]), Content_Encoding="gzip", **ranges)


def cut(answer: bytes) -> bytes:
    """Return a truncated response."""
    return answer.replace(b"\r\n\r\n", CLOSING, 1)[:-HALF]


class Server:
    """Answers first with `faults`, then with `then`."""

    def __init__(self, *faults: Answer, then: Answer = right) -> None:
        self._faults, self._then = list(faults), then

    def __call__(self, asked: ScriptedRequest) -> bytes:
        return (self._faults.pop(0) if self._faults else self._then)(asked)


POLICY = RetryPolicy(attempts=4, timeout_s=30, first_s=0.001, cap_s=0.01)


def fetch_blobs(
    store: Store,
    answer: Answer,
    etag: str = "",
    digest: str = SHA256,
    *,
    body: bytes = BODY,
    policy: RetryPolicy = POLICY,
    rate_limiter: RateLimiter | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> FetchResult:
    """Fetch the file from a server that answers like this."""
    manifest = Manifest(f"{URI}@{REVISION}", REVISION, (File("model.safetensors", len(body), digest, etag),))
    with scripted(answer) as server:
        settings = SourceSettings(hf_endpoint=server.url, read_timeout_s=10)
        source = open_source(parse_uri(manifest.uri), ANONYMOUS, settings)
        try:
            return fetch(
                source,
                DownloadPlan(manifest),
                store,
                progress=progress or Progress(),
                stop=stop or threading.Event(),
                rate_limiter=rate_limiter,
                policy=policy,
            )
        finally:
            source.close()


def assert_nothing_wrong(root: Path) -> None:
    """Assert that everything that counts as verified is correct."""
    for blob in (root / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


PASSING: dict[str, list[Answer]] = {
    "truncates": [lambda a: cut(right(a))],
    "resets": [lambda a: Reset(right(a)[:-HALF]), lambda _: Reset(b"HTTP/1.1 2")],
    "closes without an answer": [lambda _: b""] * 3,
    "ignores Range": [lambda a: cut(right(a)), lambda _: reply(200, BODY)],
    "ignores Range and truncates": [
        lambda a: cut(right(a)), lambda _: cut(reply(200, BODY)), lambda _: reply(200, BODY)
    ],
    "sends another range": [
        lambda a: cut(right(a)), lambda _: reply(206, BODY[:9], Content_Range=f"bytes 0-8/{len(BODY)}")
    ],
    "sends no HTTP": [lambda _: b"\0" * 100_000],
    "sends an error as a page": [lambda _: reply(502, b"<html>"), lambda _: reply(503, b"<html>", Retry_After="0")],
    "sends other bytes once": [lambda a: right(a, OTHER)],
    "asks to wait sixty times": [lambda _: reply(429, Retry_After="0")] * 60,
    "compresses the whole once": [packed],
    "compresses a part once": [lambda a: cut(right(a)), packed],
    "stalls": [lambda a: right(a).replace(b"\r\n\r\n", b"\r\nX: ", 1)[:200]],
}  # fmt: skip


@pytest.mark.parametrize("faults", PASSING.values(), ids=PASSING)
def test_a_download_survives_temporary_faults(faults: list[Answer], store: Store, root: Path) -> None:
    result = fetch_blobs(store, Server(*faults))
    assert store.blobs.path(result.blobs["model.safetensors"]).read_bytes() == BODY
    assert_nothing_wrong(root)


@pytest.mark.parametrize(
    "name",
    [
        "truncates", "resets", "ignores Range", "ignores Range and truncates", "sends another range",
        "compresses a part once",
    ],
)  # fmt: skip
def test_parts_are_in_place_even_without_a_digest_to_verify_them(name: str, store: Store) -> None:
    result = fetch_blobs(store, Server(*PASSING[name]), digest="")
    assert store.blobs.path(result.blobs["model.safetensors"]).read_bytes() == BODY


LASTING: dict[str, tuple[Answer, type[LarderError]]] = {
    "closes": (lambda _: b"", Unreachable),
    "resets": (lambda _: Reset(b"HTTP/1.1 2"), Unreachable),
    "other bytes": (lambda a: right(a, OTHER), DigestMismatch),
    "shorter": (lambda a: right(a, BODY[:-1]), SourceChanged),
    "longer": (lambda a: right(a, BODY + b"x"), SourceChanged),
    "metadata service": (lambda _: reply(302, Location="http://169.254.169.254/latest/meta-data/"), AddressRefused),
    "internal services": (lambda _: reply(307, Location="http://localhost:10250/pods"), AddressRefused),
    "redirect loop": (lambda a: reply(302, Location=a.target), Unreachable),
}


@pytest.mark.parametrize(("answer", "error"), LASTING.values(), ids=LASTING)
def test_a_permanent_fault_is_reported_and_none_of_its_bytes_are_kept(
    answer: Answer, error: type[LarderError], store: Store, root: Path
) -> None:
    with pytest.raises(error):
        fetch_blobs(store, answer)
    assert store.blobs.paths() == {}
    assert_nothing_wrong(root)


@pytest.mark.parametrize("length", [HALF, len(BODY) + 5])
def test_a_wrong_content_length_is_refused_and_the_next_attempt_succeeds(length: int, store: Store) -> None:
    with pytest.raises(SourceChanged, match=f"has {length} bytes now, {len(BODY)} when"):
        fetch_blobs(store, lambda a: right(a, Content_Length=str(length)))
    assert store.blobs.paths() == {}
    fetch_blobs(store, right)


def test_a_rate_limit_longer_than_the_budget_is_raised_to_the_caller(store: Store) -> None:
    with pytest.raises(RateLimited) as raised:
        fetch_blobs(store, lambda _: reply(429, Retry_After="60"))
    assert raised.value.after_s >= 59


@pytest.mark.parametrize("digest", [SHA256, ""], ids=["digest", "no digest"])
def test_a_file_that_changes_halfway_is_discarded(digest: str, store: Store, root: Path) -> None:
    """The first half belongs to the listed file, the second would belong to a newer one."""
    server = Server(lambda a: cut(right(a, ETag='"old"')), then=lambda a: right(a, OTHER, ETag='"new"'))
    with pytest.raises(SourceChanged):
        fetch_blobs(store, server, etag='"old"', digest=digest)
    assert store.blobs.paths() == {}
    assert list((root / "partial").iterdir()) == []


FETCHED_DATE, LATER_DATE = "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:00:01 GMT"
CHANGES = {
    "strong tag": ({"ETag": '"1"'}, {"ETag": '"2"'}),
    "weak tag": ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),
    "tag that becomes weak": ({"ETag": '"1"'}, {"ETag": 'W/"2"'}),
    "tag that becomes strong": ({"ETag": 'W/"1"'}, {"ETag": '"2"'}),
    "date": ({"Last_Modified": FETCHED_DATE}, {"Last_Modified": LATER_DATE}),
    "date that goes back": ({"Last_Modified": LATER_DATE}, {"Last_Modified": FETCHED_DATE}),
}


@pytest.fixture
def fetch_url(tmp_path: Path, store: Store) -> Callable[[Answer], FetchResult]:
    """List and fetch the file of a URL from a server that answers a HEAD, and then the GETs, like this."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    settings = SourceSettings(allow_addresses=("127.0.0.0/8", "::1"), ca_bundle=str(tmp_path / "ca.pem"))

    def run(answer: Answer) -> FetchResult:
        with scripted(answer, tls) as server:
            uri = parse_uri(f"https://localhost:{server.port}/model.safetensors")
            source = open_source(uri, ANONYMOUS, settings)
            try:
                manifest = source.resolve()
                return fetch(
                    source, DownloadPlan(manifest), store, progress=Progress(), stop=threading.Event(), policy=POLICY
                )
            finally:
                source.close()

    return run


def listed(**headers: str) -> Answer:
    """Return the answer to HEAD."""
    return lambda _: reply(200, b"", **{"Content_Length": str(len(BODY)), **headers})


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_file_without_a_digest_that_changes_midway_is_not_mixed(
    fetch_url: Callable[[Answer], FetchResult],
    before: dict[str, str],
    after: dict[str, str],
    ranges: bool,  # noqa: FBT001 - a table
    store: Store,
    root: Path,
) -> None:
    """Both versions have the same size, and the server ignores If-Match."""
    then: Answer = (lambda a: right(a, OTHER, **after)) if ranges else (lambda _: reply(200, OTHER, **after))
    with pytest.raises(SourceChanged, match="changed since it was resolved"):
        fetch_url(Server(listed(**before), lambda a: cut(right(a, BODY, **before)), then=then))
    assert store.blobs.paths() == {}
    assert list((root / "partial").iterdir()) == []


@pytest.mark.parametrize(("reported", "_"), CHANGES.values(), ids=CHANGES)
def test_an_unchanged_file_without_a_digest_is_resumed(
    fetch_url: Callable[[Answer], FetchResult], reported: dict[str, str], _: dict[str, str], store: Store
) -> None:
    asked: list[ScriptedRequest] = []

    def then(request: ScriptedRequest) -> bytes:
        asked.append(request)
        answer = right(request, BODY, **reported)
        return cut(answer) if len(asked) == 1 else answer

    result = fetch_url(Server(listed(**reported), then=then))
    assert store.blobs.path(result.blobs["model.safetensors"]).read_bytes() == BODY
    assert [a.headers.get("range", "") for a in asked] == ["", f"bytes={HALF}-{len(BODY) - 1}"]
    strong = {reported["ETag"]} if reported.get("ETag", "W/").startswith('"') else {None}
    assert {a.headers.get("if-match") for a in asked} == strong  # to If-Match, a weak tag is never the same


def test_a_resumed_file_requests_only_its_missing_bytes(store: Store) -> None:
    asked: list[str] = []

    def remember(request: ScriptedRequest) -> bytes:
        asked.append(request.headers.get("range", ""))
        return cut(right(request)) if len(asked) == 1 else right(request)

    fetch_blobs(store, remember)
    assert asked == ["", f"bytes={HALF}-{len(BODY) - 1}"]


class Drawn(RateLimiter):
    """Counts what was drawn and used."""

    size_bytes = 0

    def take(self, size_bytes: int, stop: threading.Event) -> bool:
        self.size_bytes += size_bytes
        return super().take(size_bytes, stop)

    def give_back(self, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        super().give_back(size_bytes)


def test_skipped_bytes_count_against_the_limit(store: Store) -> None:
    rate_limiter, progress = Drawn(), Progress()
    result = fetch_blobs(store, Server(*PASSING["ignores Range"]), rate_limiter=rate_limiter, progress=progress)
    assert rate_limiter.size_bytes == HALF + len(BODY)
    assert result.received_bytes == progress.traffic.received_bytes == HALF + len(BODY)
    assert progress.done == len(BODY)


def test_a_stop_ends_the_skipping_of_bytes(store: Store) -> None:
    """The rate limit allows one block, and then nothing for an hour."""
    with pytest.raises(Unreachable):
        fetch_blobs(store, Server(lambda a: cut(right(a)), then=lambda _: b""))
    progress, stop = Progress(), threading.Event()

    def run() -> None:
        with pytest.raises(Stopped):
            fetch_blobs(store, lambda _: reply(200, BODY), rate_limiter=RateLimiter(1), progress=progress, stop=stop)

    running = threading.Thread(target=run)
    running.start()
    try:
        wait_until(lambda: progress.received > 0, 60, "the first bytes")
    finally:
        stop.set()
        running.join()
    assert progress.received < HALF
    manifest = Manifest(f"{URI}@{REVISION}", REVISION, (File("model.safetensors", len(BODY), SHA256),))
    assert store.space.missing_bytes(DownloadPlan(manifest)) == HALF


@pytest.mark.parametrize("digest", [True, False], ids=["digest", "no digest"])
@pytest.mark.parametrize("size", [len(BODY), 24 * 2**20], ids=["small", "several receivers"])
def test_a_server_that_compresses_every_part_is_abandoned_after_a_few_requests(
    size: int,
    digest: bool,  # noqa: FBT001 - a table
    store: Store,
) -> None:
    """The first half is uncompressed, so only the header of the second reveals the fault."""
    body = random.Random(3).randbytes(size)
    sha256 = f"sha256:{hashlib.sha256(body).hexdigest()}" if digest else ""
    asked: list[str] = []

    def answer(request: ScriptedRequest) -> bytes:
        asked.append(request.headers.get("range", ""))
        return (
            packed(request, body) if asked[-1] else right(request, body).replace(b"\r\n\r\n", CLOSING, 1)[: size // 2]
        )

    with pytest.raises(Unreachable, match=r"'model.safetensors' compressed .*disable compression"):
        fetch_blobs(store, answer, digest=sha256, body=body)
    assert len(asked) <= 1 + 4 + 2  # at most one attempt of each receiver, and two more
    assert store.blobs.paths() == {}


def test_requests_to_a_server_that_truncates_every_response_become_less_frequent(store: Store) -> None:
    asked_s: list[float] = []

    def answer(request: ScriptedRequest) -> bytes:
        asked_s.append(time.monotonic())
        whole = right(request)
        return whole if len(asked_s) > 9 else whole.replace(b"\r\n\r\n", CLOSING, 1)[:1024]

    fetch_blobs(store, answer, policy=RetryPolicy(first_s=0.02, cap_s=0.3))
    gaps_s = [after - before for before, after in pairwise(asked_s)]
    assert len(gaps_s) == 9
    assert all(gap_s >= min(0.3, 0.02 * 2**n) / 2 for n, gap_s in enumerate(gaps_s))

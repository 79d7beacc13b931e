"""`larder fill` puts exactly one revision on a claim, and reports the outcome."""

import io
import json
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from agent.cli.fill import COMPLETED, run_fill
from agent.cli.progress_server import ProgressServer
from agent.transfer.progress import Progress
from rig.ports import free_port
from shared.download_report import NEEDS_ACTION, DownloadProgress, DownloadReport, decode_report
from shared.sources.memory import MemorySource, open_from
from shared.sources.port import Credentials, Source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import ModelUri

URI = "hf://test/model@main"
FILES = {"config.json": b"{}", "weights.safetensors": os.urandom(2**20), "sub/tokenizer.json": b"[]"}


class Claim:
    """A claim, and the command that fills it."""

    def __init__(self, root: Path) -> None:
        self.root, self.model = root, root / "model"
        self.source = MemorySource(FILES)
        self.opened_with = Credentials()

    def fill(
        self,
        *arguments: str,
        revision: str = "",
        stop: threading.Event | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> int:
        open_model = open_from({"test/model": self.source})

        def opener(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
            self.opened_with = credentials
            return open_model(uri, credentials, settings)

        argv = [URI, f"--to={self.model}", f"--revision={revision or self.source.resolve().revision}",
                f"--report={self.root / 'report'}", "--progress-port=0", *arguments]  # fmt: skip
        return run_fill(argv, environ or {}, io.StringIO(), stop or threading.Event(), opener)

    @property
    def report(self) -> DownloadReport:
        return decode_report((self.root / "report").read_text())

    @property
    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.model)): p.read_bytes() for p in self.model.rglob("*") if p.is_file()}


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    return Claim(tmp_path)


def test_the_model_is_complete_readable_and_marked(claim: Claim) -> None:
    assert claim.fill() == 0
    assert claim.files == FILES
    revision = claim.source.resolve().revision
    size = sum(len(body) for body in FILES.values())
    assert claim.report == DownloadReport(revision=revision, downloaded_bytes=size)
    mark = json.loads((claim.root / COMPLETED).read_text())
    assert (mark["revision"], mark["files"]) == (revision, len(FILES))
    assert {p.stat().st_mode & 0o777 for p in claim.model.rglob("*") if p.is_file()} == {0o644}, "any user may read"


def test_a_second_run_transfers_nothing(claim: Claim) -> None:
    claim.fill()
    served = claim.source.served_bytes
    assert claim.fill() == 0
    assert claim.source.served_bytes == served
    assert (claim.report.downloaded_bytes, claim.report.reused_bytes) == (0, served)


def test_a_source_that_no_longer_has_the_resolved_revision_is_not_downloaded(claim: Claim) -> None:
    assert claim.fill(revision="older") == 1
    assert claim.report.reason == "SourceChanged"
    assert claim.files == {}


def test_the_mark_of_an_earlier_download_is_removed_before_anything_changes(claim: Claim) -> None:
    claim.fill()
    stop = threading.Event()
    stop.set()
    claim.source = MemorySource({**FILES, "more": b"x" * 100})
    assert claim.fill(stop=stop) != 0
    assert not (claim.root / COMPLETED).exists()


def test_failures_that_someone_must_act_on_have_an_exit_code_of_their_own(claim: Claim) -> None:
    claim.source = MemorySource({})
    assert claim.fill("--allow=*.gguf", revision="any") == NEEDS_ACTION
    assert claim.report.reason == "SourceNotFound"


def test_an_invalid_variable_is_reported_as_an_invalid_setting(claim: Claim) -> None:
    assert claim.fill(environ={"HF_ENDPOINT": "hub.test"}) == NEEDS_ACTION
    message = "HF_ENDPOINT: 'hub.test' is not an endpoint; write http(s)://HOST[:PORT]"
    assert claim.report == DownloadReport(reason="InvalidSettings", message=message)


def test_credentials_come_from_the_mounted_secret_and_go_to_its_hosts(claim: Claim) -> None:
    secret = claim.root / "secret"
    (secret / "..data").mkdir(parents=True)
    (secret / "HF_TOKEN").write_text("t")
    claim.fill(f"--credentials={secret}", "--host=hub.example.org")
    assert claim.opened_with == Credentials({"HF_TOKEN": "t"}, ("hub.example.org",))


def test_the_bandwidth_limit_slows_down_a_download(claim: Claim) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    assert claim.fill("--limit=10000", stop=stop) != 0
    claim.source = MemorySource(FILES)
    assert claim.fill("--limit=0") == 0


def test_progress_is_served_to_any_client() -> None:
    progress, port = Progress(total=200), free_port()
    with ProgressServer(progress, port):
        progress.count_received(100)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            line = connection.makefile().readline()
    assert msgspec.json.decode(line, type=DownloadProgress).percent == 50


@pytest.mark.parametrize(
    "text", ["", "{}", "null", '{"revision": "r", "reason": "Denied"}', '{"reason": "no word"}', '{"revision": "a b"}',
             '{"revision": "r", "other": 1}', "[" * 5000],
)  # fmt: skip
def test_an_invalid_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it"):
        decode_report(text)


@pytest.mark.parametrize(("done", "total", "percent"), [(0, 0, 0), (-1, 5, 0), (9, 5, 0), (99, 100, 95), (5, 5, 100)])
def test_the_percentage_stays_valid_for_any_reported_numbers(done: int, total: int, percent: int) -> None:
    assert DownloadProgress(done, total).percent == percent

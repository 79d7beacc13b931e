"""The result of a download Job: its container's termination message (kubelet keeps 4,096 bytes).

Anyone who may create pods in the Job's namespace can write such a message, so it is untrusted.
"""

import re

import msgspec

from shared.decode_errors import DECODE_ERRORS

MAX_BYTES = 4096
PROGRESS_PORT = 9470  # on which the Job's pod serves its progress
NEEDS_ACTION = 3  # exit code if another attempt cannot help
_MAX_MESSAGE = 1024
_MAX_BYTES = 2**50
_REASON = re.compile(r"[A-Z][A-Za-z]{0,62}", re.ASCII)
_REVISION = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)


class DownloadReport(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The revision that is complete on the claim, or the reason why there is none.

    `downloaded_bytes` were received over the network; `reused_bytes` were on the claim before.
    """

    revision: str = ""
    reason: str = ""
    message: str = ""
    downloaded_bytes: int = 0
    reused_bytes: int = 0


class DownloadProgress(msgspec.Struct, frozen=True):
    """The bytes on the claim and in total; one line of JSON, sent to each client that connects."""

    done: int
    total: int

    @property
    def percent(self) -> int:
        """The share in percent, in steps of five."""
        if not 0 < self.done <= self.total:
            return 0
        return 100 * self.done // self.total // 5 * 5


def encode_report(report: DownloadReport) -> bytes:
    """Return JSON for `decode_report`."""
    return msgspec.json.encode(msgspec.structs.replace(report, message=_plain(report.message)))


def decode_report(text: str) -> DownloadReport:
    """Decode a termination message. Raises ValueError with the reason if it is invalid."""
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    try:
        report = msgspec.json.decode(text, type=DownloadReport)
    except DECODE_ERRORS as error:
        raise ValueError(f"it was not written by `larder fill`: {error}") from error
    if bool(report.revision) == bool(report.reason):
        raise ValueError("it must have a revision or a reason, and not both")
    if report.reason and not _REASON.fullmatch(report.reason):
        raise ValueError("its reason is not a CamelCase word")
    if report.revision and not _REVISION.fullmatch(report.revision):
        raise ValueError("its revision is not printable ASCII without spaces, or too long")
    if not all(0 <= size <= _MAX_BYTES for size in (report.downloaded_bytes, report.reused_bytes)):
        raise ValueError("its numbers of bytes are negative or too large")
    return msgspec.structs.replace(report, message=_plain(report.message))


def _plain(text: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text[:_MAX_MESSAGE])

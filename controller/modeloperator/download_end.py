"""How a download of a Model ended. No input or output, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DownloadEnd:
    """How a download Job ended.

    Args:
        job_uid: UID of the Job.
        source: Scheme of the source.
        reason: Why it failed; empty if it is complete.
        duration_s: Seconds since the Job was created.
        downloaded_bytes: Bytes received over the network, as the pod reports.
        reused_bytes: Bytes that were on the claim before, as the pod says.
    """

    job_uid: str
    source: str
    reason: str = ""
    duration_s: float = 0.0
    downloaded_bytes: int = 0
    reused_bytes: int = 0

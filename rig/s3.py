"""A real S3 server: versitygw over a directory, with buckets as directories and objects as files."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config

from rig.binaries import Binaries
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program
from rig.running import RunningProcess

_READY_S = 60.0
_HEALTH = "/healthz"
_TIMEOUT_S = 1.0


class S3(RunningProcess):
    """A running S3 server; use as a context manager. Objects are below `state`/buckets.

    Args:
        enter: A prefix of the command line. It may enter another network namespace, whose loopback port must then be
            forwarded to ours.
        host: The address of the server in that namespace.
        virtual: A domain for bucket host names (BUCKET.`virtual`).
        certificate: A PEM file with the certificate chain and the key, to serve TLS; `put` does not work then.
    """

    region = "us-east-1"

    def __init__(
        self,
        binaries: Binaries,
        state: Path,
        *,
        enter: Sequence[str] = (),
        host: str = LOOPBACK,
        virtual: str = "",
        certificate: Path | None = None,
    ) -> None:
        self.access_key, self.secret_key = "rig", secrets.token_urlsafe(24)
        self._enter, self._host, self.port = list(enter), host, free_port()
        self._versitygw, self._state = binaries.versitygw, state.absolute()
        self._scheme = "https" if certificate else "http"
        self._options = [f"--virtual-domain={virtual}"] if virtual else []
        self._options += [f"--{part}={certificate}" for part in ("cert", "key") if certificate]

    @property
    def endpoint(self) -> str:
        """The endpoint URL, for path-style buckets."""
        return f"{self._scheme}://{self._host}:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        buckets, roles, facts = (self._state / name for name in ("buckets", "iam", "metadata"))
        for folder in (buckets, roles, facts):
            folder.mkdir(parents=True, exist_ok=True)
        argv = [*self._enter, str(self._versitygw), "--region", self.region, "--health", _HEALTH]
        argv += [f"--port={host}:{self.port}" for host in {LOOPBACK, self._host}]
        argv += [f"--iam-dir={roles}", "--keep-alive", "--quiet", *self._options]
        argv += ["posix", f"--sidecar={facts}", str(buckets)]
        secret = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        program = Program("versitygw", argv, secret)
        self._process = Process(program, self._state / "log" / "versitygw.log")
        self._process.wait_ready(self._answers, _READY_S)

    def path(self, bucket: str, key: str = "") -> Path:
        """Return the file of an object, or the directory of a bucket."""
        return self._state / "buckets" / bucket / key

    def put(self, bucket: str, key: str, data: bytes) -> str:
        """Write an object, creating its bucket, and return its ETag (the MD5, as for a plain upload)."""
        client = self.client()
        self.path(bucket).mkdir(exist_ok=True)
        return str(client.put_object(Bucket=bucket, Key=key, Body=data)["ETag"]).strip('"')

    def put_folder(self, bucket: str, prefix: str, folder: Path) -> None:
        """Write every file of a directory below a prefix."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.put(
                bucket, f"{prefix.strip('/')}/{path.relative_to(folder).as_posix()}".lstrip("/"), path.read_bytes()
            )

    def forget_checksums(self, bucket: str, key: str) -> None:
        """Remove the checksum of an object, as for older objects, which have only an ETag."""
        (self._state / "metadata" / bucket / key / "meta" / "checksums").unlink()

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
        """Return a boto3 client with the keys of the server."""
        return boto3.client(
            "s3", endpoint_url=self._near, region_name=self.region,
            aws_access_key_id=self.access_key, aws_secret_access_key=self.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )  # fmt: skip

    @property
    def _near(self) -> str:
        """The address at which this process reaches the server."""
        return f"{self._scheme}://{LOOPBACK}:{self.port}"

    def _answers(self) -> bool:
        try:
            return httpx.get(
                f"{self._near}{_HEALTH}",
                timeout=_TIMEOUT_S,
                trust_env=False,
                verify=False,  # noqa: S501 - the server is ours
            ).is_success
        except httpx.HTTPError:
            return False

"""Holds, refreshes and checks the credentials for an API server."""

import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from shared.kube.errors import NoCluster

DEFAULT_NAMESPACE = "default"


async def _anonymous() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach an API server; `namespace` comes from the context or the pod.

    `authorization` is called for each request and returns the Authorization header; empty for none.
    """

    server: str
    tls: ssl.SSLContext | bool = True
    authorization: Callable[[], Awaitable[str]] = _anonymous
    namespace: str = DEFAULT_NAMESPACE
    tls_server_name: str | None = None
    proxy: str | None = None


@dataclass(slots=True)
class TokenFile:
    """A bearer token in a file that is replaced from time to time; reread after `fresh_s` seconds."""

    path: Path
    fresh_s: float = 60
    clock: Callable[[], float] = time.monotonic
    _value: str = field(default="", init=False)
    _read_at: float = field(default=0, init=False)

    async def __call__(self) -> str:
        """Return the header with the newest token; if the file cannot be read, the last token stays in use."""
        if not self._value or self.clock() - self._read_at >= self.fresh_s:
            self._read()
        return f"Bearer {self._value}"

    def _read(self) -> None:
        try:
            value = self.path.read_text().strip()
        except OSError:
            value = ""
        self._value = value or self._value
        self._read_at = self.clock()


def tls_context(
    ca_file: str | None, cert_file: str | None = None, key_file: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """Return the TLS context for an API server. Raises NoCluster if a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file:
            context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # includes SSLError
        files = ", ".join(f for f in (ca_file, cert_file, key_file) if f)
        why = (getattr(error, "reason", None) or error.strerror or str(error)).replace("_", " ").lower()
        raise NoCluster(
            f"cannot use a certificate or key of the kubeconfig or service account ({files}): {why}; "
            "correct certificate-authority, client-certificate or client-key"
        ) from error
    # Python 3.13 is stricter than Go about certificates, and the CAs of many clusters do not comply.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

"""Finds the API server and the credentials for it: the service account of a pod, or a kubeconfig."""

import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shared.kube.errors import NoCluster

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


async def _anonymous() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach an API server; `namespace` is that of the context or of the pod.

    `authorization` returns the Authorization header, fresh for each request; empty without one.
    """

    server: str
    tls: ssl.SSLContext | bool = True
    authorization: Callable[[], Awaitable[str]] = _anonymous
    namespace: str = DEFAULT_NAMESPACE
    tls_server_name: str | None = None
    proxy: str | None = None


@dataclass(slots=True)
class TokenFile:
    """A bearer token in a file that is rotated; read again when older than `fresh_s` seconds."""

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


async def find_access(
    kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str], context: str | None = None
) -> Access:
    """Return the access to the API server; raises NoCluster, which names the places that were searched."""
    named = kubeconfig is not None or context is not None
    if not named and environ.get(_HOST) and (service_account / "token").is_file():
        return _service_account(service_account, environ)
    from shared.kube.kubeconfig import read_kubeconfig  # noqa: PLC0415 - pods need not pay for its 12 MB

    return await read_kubeconfig(kubeconfig, environ, context)


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


def _service_account(folder: Path, environ: Mapping[str, str]) -> Access:
    host, port = environ[_HOST], environ.get(_PORT, "443")
    namespace = folder / "namespace"
    return Access(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls_context(str(folder / "ca.crt")),
        TokenFile(folder / "token"),
        (namespace.read_text().strip() if namespace.is_file() else "") or DEFAULT_NAMESPACE,
    )

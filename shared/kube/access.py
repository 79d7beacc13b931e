"""Finds the API server and the credentials for it: the service account of a pod, or a kubeconfig."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from shared.http.proxies import proxies_from_environ
from shared.kube.credentials import DEFAULT_NAMESPACE, Access, TokenFile, tls_context
from shared.kube.errors import NoCluster

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


async def find_access(
    kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str], context: str | None = None
) -> Access:
    """Return the access to the API server. Raises NoCluster, which lists the places that were searched.

    If the kubeconfig sets no proxy, a proxy from the environment is used.
    """
    found = await _find(kubeconfig, service_account, environ, context)
    return found if found.proxy else replace(found, proxy=_proxy_of(found.server, environ))


def _proxy_of(server: str, environ: Mapping[str, str]) -> str | None:
    parts = urlsplit(server)
    try:
        proxy = proxies_from_environ(environ).of(parts.scheme, parts.hostname or "")
    except ValueError as error:
        raise NoCluster(str(error)) from error
    return proxy.url if proxy else None


async def _find(
    kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str], context: str | None
) -> Access:
    named = kubeconfig is not None or context is not None
    if not named and environ.get(_HOST) and (service_account / "token").is_file():
        return _service_account(service_account, environ)
    from shared.kube.kubeconfig import read_kubeconfig  # noqa: PLC0415 - saves pods 12 MB

    return await read_kubeconfig(kubeconfig, environ, context)


def _service_account(folder: Path, environ: Mapping[str, str]) -> Access:
    host, port = environ[_HOST], environ.get(_PORT, "443")
    namespace = folder / "namespace"
    return Access(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls_context(str(folder / "ca.crt")),
        TokenFile(folder / "token"),
        (namespace.read_text().strip() if namespace.is_file() else "") or DEFAULT_NAMESPACE,
    )

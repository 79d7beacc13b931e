"""Finds the API server and the credentials for it: the service account of a pod, or a kubeconfig."""

from collections.abc import Mapping
from pathlib import Path

from shared.kube.credentials import DEFAULT_NAMESPACE, Access, TokenFile, tls_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


async def find_access(
    kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str], context: str | None = None
) -> Access:
    """Return the access to the API server; raises NoCluster, which names the places that were searched."""
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

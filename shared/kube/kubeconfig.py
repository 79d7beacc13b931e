"""Access by kubeconfig. Only this module imports the kubernetes package, which supports every login method."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.kube_config import load_kube_config

from shared.kube.credentials import DEFAULT_NAMESPACE, Access, TokenFile, tls_context
from shared.kube.errors import NoCluster

# NoCluster already covers the loader's warnings; without a handler, Python would also print them to stderr.
logging.getLogger("kubernetes").addHandler(logging.NullHandler())


async def read_kubeconfig(path: str | Path | None, environ: Mapping[str, str], context: str | None) -> Access:
    """Return the access of a context, by default the current one; raises NoCluster, naming the file."""
    try:
        return await _read(path, context)
    except NoCluster:
        raise
    except Exception as error:  # the loader raises anything for an invalid file
        raise NoCluster(_unusable(_files(path, environ), context, error)) from error


async def _read(path: str | Path | None, context: str | None) -> Access:
    found: Any = Configuration()
    load: Any = load_kube_config  # untyped
    file = None if path is None else str(path)
    loader = await load(config_file=file, context=context, client_configuration=found)
    return Access(
        found.host,
        tls_context(found.ssl_ca_cert, found.cert_file, found.key_file, verify=found.verify_ssl),
        _authorization(loader, found),
        str(loader.current_context["context"].get("namespace") or DEFAULT_NAMESPACE),
        found.tls_server_name,
        found.proxy,
    )


def _authorization(loader: Any, found: Any) -> Callable[[], Awaitable[str]]:  # noqa: ANN401 - neither has types
    user = loader._user  # noqa: SLF001 - the loader reads a token file only once and does not expose its path
    if user and "tokenFile" in user:
        return TokenFile(Path(user.path).parent / user["tokenFile"])
    if user and "exec" in user and not hasattr(loader, "token") and not found.cert_file:
        command = user["exec"]["command"]
        raise NoCluster(
            f"the credential plugin {command} of the kubeconfig returned no credentials; `kubectl get nodes` shows why"
        )

    async def authorization() -> str:
        if hasattr(loader, "exec_plugin_expiry"):
            await loader.load_from_exec_plugin()  # runs the plugin only once its token has expired
        return str(getattr(loader, "token", ""))

    return authorization


def _unusable(files: list[str], context: str | None, error: Exception) -> str:
    wanted = f"the kubeconfig {':'.join(files)}"
    if context is not None:
        wanted = f"context {context} of {wanted}"
    why = error if any(Path(file).exists() for file in files) else "there is no such file"
    advice = "set KUBECONFIG to a file that kubectl accepts; `kubectl config get-contexts` lists its contexts"
    return f"cannot use {wanted}: {why}; {advice}"


def _files(kubeconfig: str | Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return the paths to search for a kubeconfig."""
    if kubeconfig is not None:
        return [str(kubeconfig)]
    return [f for f in environ.get("KUBECONFIG", "").split(":") if f] or [str(Path.home() / ".kube" / "config")]

"""Where the API server is, and what we show it: a pod's service account, or a kubeconfig."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from shared.kube.client import Configuration, load_kube_config
from shared.kube.errors import NoCluster

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# What the loader warns of is told by NoCluster; without a handler Python would write it to stderr as well.
logging.getLogger("kubernetes").addHandler(logging.NullHandler())
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_DEFAULT_NAMESPACE = "default"


class Access(NamedTuple):
    """How to reach an API server, and the namespace that the credentials name: the context's, or the pod's own."""

    configuration: Configuration
    namespace: str


@dataclass(slots=True)
class TokenFile:
    """A bearer token that is replaced while we run; read again when older than `fresh_s`."""

    path: Path
    fresh_s: float = 60
    clock: Callable[[], float] = time.monotonic
    _value: str = field(default="", init=False)
    _read_at: float = field(default=0, init=False)

    def __call__(self, configuration: Any) -> None:  # noqa: ANN401 - the client's own types forbid the hook that it offers
        """Show the newest token; an unreadable file leaves the last one in use."""
        if not self._value or self.clock() - self._read_at >= self.fresh_s:
            self._read()
        configuration.api_key["BearerToken"] = f"Bearer {self._value}"

    def _read(self) -> None:
        try:
            value = self.path.read_text().strip()
        except OSError:
            value = ""
        self._value = value or self._value
        self._read_at = self.clock()


async def configure(
    kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str], context: str | None = None
) -> Access:
    """Return the client's configuration; raise NoCluster, naming what was looked for."""
    configuration = Configuration()
    # Python 3.13 demands of certificates what Go does not, and what the CAs of many clusters lack.
    configuration.disable_strict_ssl_verification = True
    named = kubeconfig is not None or context is not None
    if not named and environ.get(_HOST) and (service_account / "token").is_file():
        return Access(configuration, _use_service_account(configuration, service_account, environ))
    try:
        return Access(configuration, await _use_kubeconfig(configuration, kubeconfig, context))
    except NoCluster:
        raise
    except Exception as error:  # the loader raises whatever a wrong file makes it stumble over
        raise NoCluster(_unusable(_files(kubeconfig, environ), context, error)) from error


def _unusable(files: list[str], context: str | None, error: Exception) -> str:
    wanted = f"the kubeconfig {':'.join(files)}"
    if context is not None:
        wanted = f"context {context} of {wanted}"
    why = error if any(Path(file).exists() for file in files) else "there is no such file"
    way_out = "set KUBECONFIG to a file that kubectl accepts; `kubectl config get-contexts` shows what it has"
    return f"cannot use {wanted}: {why}; {way_out}"


def _files(kubeconfig: str | Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return where a kubeconfig is looked for."""
    if kubeconfig is not None:
        return [str(kubeconfig)]
    return [f for f in environ.get("KUBECONFIG", "").split(":") if f] or [str(Path.home() / ".kube" / "config")]


def _use_service_account(configuration: Any, folder: Path, environ: Mapping[str, str]) -> str:  # noqa: ANN401 - as above
    host, port = environ[_HOST], environ.get(_PORT, "443")
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.ssl_ca_cert = str(folder / "ca.crt")
    _use_token_file(configuration, folder / "token")
    namespace = folder / "namespace"
    return (namespace.read_text().strip() if namespace.is_file() else "") or _DEFAULT_NAMESPACE


async def _use_kubeconfig(configuration: Any, path: str | Path | None, context: str | None) -> str:  # noqa: ANN401 - as above
    load: Any = load_kube_config  # it has no types
    file = None if path is None else str(path)
    loader = await load(config_file=file, context=context, client_configuration=configuration)
    user = loader._user  # noqa: SLF001 - the loader reads a token file once and offers no way to it
    if user and "tokenFile" in user:
        _use_token_file(configuration, Path(user.path).parent / user["tokenFile"])
    elif hasattr(loader, "exec_plugin_expiry"):
        configuration.refresh_api_key_hook = _plugin_again(loader)
    elif user and "exec" in user and not hasattr(loader, "token") and not configuration.cert_file:
        command = user["exec"]["command"]
        raise NoCluster(
            f"the credential plugin {command} of the kubeconfig gave no credentials; `kubectl get nodes` shows why"
        )
    return str(loader.current_context["context"].get("namespace") or _DEFAULT_NAMESPACE)


def _use_token_file(configuration: Any, path: Path) -> None:  # noqa: ANN401 - as above
    token = TokenFile(path)
    token(configuration)
    configuration.refresh_api_key_hook = token


def _plugin_again(loader: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - as above
    """Return a hook that asks the exec plugin anew once its token has expired."""

    async def refresh(configuration: Any) -> None:  # noqa: ANN401 - as above
        await loader.load_from_exec_plugin()
        if token := getattr(loader, "token", None):
            configuration.api_key["BearerToken"] = token

    return refresh

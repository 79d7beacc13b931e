"""Where the API server is, and what we show it: a pod's service account, or a kubeconfig."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.kube.client import Configuration, load_kube_config
from shared.kube.errors import NoCluster

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# What the loader warns of is told by NoCluster; without a handler Python would write it to stderr as well.
logging.getLogger("kubernetes").addHandler(logging.NullHandler())
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


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


async def configure(kubeconfig: str | Path | None, service_account: Path, environ: Mapping[str, str]) -> Configuration:
    """Return the client's configuration; raise NoCluster, naming what was looked for."""
    configuration = Configuration()
    # Python 3.13 demands of certificates what Go does not, and what the CAs of many clusters lack.
    configuration.disable_strict_ssl_verification = True
    if kubeconfig is None and environ.get(_HOST) and (service_account / "token").is_file():
        _use_service_account(configuration, service_account, environ)
        return configuration
    try:
        await _use_kubeconfig(configuration, kubeconfig)
    except Exception as error:  # the loader raises whatever a wrong file makes it stumble over
        wanted = "a kubeconfig in the usual place" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        why = "there is no such file" if _is_absent(kubeconfig) else error
        raise NoCluster(f"cannot use {wanted}: {why}; set KUBECONFIG to a file that kubectl accepts") from error
    return configuration


def _is_absent(kubeconfig: str | Path | None) -> bool:
    return kubeconfig is not None and not Path(kubeconfig).exists()


def _use_service_account(configuration: Any, folder: Path, environ: Mapping[str, str]) -> None:  # noqa: ANN401 - as above
    host, port = environ[_HOST], environ.get(_PORT, "443")
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.ssl_ca_cert = str(folder / "ca.crt")
    _use_token_file(configuration, folder / "token")


async def _use_kubeconfig(configuration: Any, path: str | Path | None) -> None:  # noqa: ANN401 - as above
    load: Any = load_kube_config  # it has no types
    loader = await load(config_file=None if path is None else str(path), client_configuration=configuration)
    user = loader._user  # noqa: SLF001 - the loader reads a token file once and offers no way to it
    if user and "tokenFile" in user:
        _use_token_file(configuration, Path(user.path).parent / user["tokenFile"])
    elif hasattr(loader, "exec_plugin_expiry"):
        configuration.refresh_api_key_hook = _plugin_again(loader)


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

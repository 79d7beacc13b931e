"""What we use of the Kubernetes client, without the rest of it: an agent on each node pays for what is loaded.

`import kubernetes.aio` first runs what stands in the `__init__` of both packages, which loads the synchronous client
with requests and oauthlib as well: 9 MB of an idle process. So the packages get their place without being run; the
first who asks one of them for a name that it does not have yet has it run then.
"""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType

_PACKAGES = ("kubernetes", "kubernetes.aio")


def _place_packages() -> None:
    parent, folders = None, None
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name, folders)
        if spec is None or name in sys.modules:
            return
        package = module_from_spec(spec)
        package.__dict__["__getattr__"] = _run_once(package, spec)
        sys.modules[name] = package
        if parent is not None:
            setattr(parent, name.rpartition(".")[2], package)
        parent, folders = package, spec.submodule_search_locations


def _run_once(package: ModuleType, spec: ModuleSpec) -> Callable[[str], object]:
    def find(name: str) -> object:
        if package.__dict__.pop("__getattr__", None) and spec.loader:
            spec.loader.exec_module(package)
        return getattr(package, name)

    return find


_place_packages()

from kubernetes.aio.client.api_client import ApiClient  # noqa: E402 - the packages must have their place by now
from kubernetes.aio.client.configuration import Configuration  # noqa: E402 - as above
from kubernetes.aio.config.kube_config import load_kube_config  # noqa: E402 - as above

__all__ = ["ApiClient", "Configuration", "load_kube_config"]

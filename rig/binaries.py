"""The programs that the rig runs, searched in KUBEBUILDER_ASSETS first and then in the cache."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rig.errors import MissingBinaries

KUBERNETES_VERSION = "1.36.3"
ETCD_VERSION = "3.7.3"
VERSITYGW_VERSION = "1.8.0"
HELM_VERSION = "4.3.1"
CONTAINERD_VERSION = "2.2.9"
COREDNS_VERSION = "1.15.0"
LOCAL_PATH_VERSION = "0.0.30"
FAKE_GCS_VERSION = "1.56.1"
REGISTRY_VERSION = "3.1.2"
AZURITE_VERSION = "3.37.0"
KSERVE_VERSION = "0.20.0"
KARPENTER_VERSION = "1.14.1"  # the newest that the oldest Go accepted here can compile
LWS_VERSION = "0.9.0"
JOBSET_VERSION = "0.11.1"
KUEUE_VERSION = "0.15.0"


@dataclass(frozen=True)
class Binary:
    """One program: its file name, its version without `v`, the Go package to compile, and build tags.

    `pinned_by` is a module (`path@version`) whose replace directives apply, so that Go compiles shared libraries once.
    """

    name: str
    version: str
    package: str
    tags: str = ""
    pinned_by: str = ""

    @property
    def folder(self) -> str:
        """The directory of this version below `bin/` of the cache."""
        return f"{self.name}-{self.version}"


def _kubernetes(name: str) -> Binary:
    return Binary(name, KUBERNETES_VERSION, f"k8s.io/kubernetes/cmd/{name}")


def _containerd(name: str) -> Binary:
    package = f"github.com/containerd/containerd/v2/cmd/{name}"
    return Binary(name, CONTAINERD_VERSION, package, "no_btrfs,no_zfs,no_devmapper")


ETCD = Binary("etcd", ETCD_VERSION, "go.etcd.io/etcd/server/v3")
APISERVER = _kubernetes("kube-apiserver")
CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
SCHEDULER = _kubernetes("kube-scheduler")
KUBECTL = _kubernetes("kubectl")
VERSITYGW = Binary("versitygw", VERSITYGW_VERSION, "github.com/versity/versitygw/cmd/versitygw")
FAKE_GCS = Binary("fake-gcs-server", FAKE_GCS_VERSION, "github.com/fsouza/fake-gcs-server")
REGISTRY = Binary("registry", REGISTRY_VERSION, "github.com/distribution/distribution/v3/cmd/registry")
HELM = Binary("helm", HELM_VERSION, "helm.sh/helm/v4/cmd/helm")
KUBELET = _kubernetes("kubelet")
KUBE_PROXY = _kubernetes("kube-proxy")
CONTAINERD = _containerd("containerd")
CONTAINERD_SHIM = _containerd("containerd-shim-runc-v2")
CTR = _containerd("ctr")
_KSERVE_MODULE = f"github.com/kserve/kserve@v{KSERVE_VERSION}"
KSERVE = Binary("kserve-manager", KSERVE_VERSION, "github.com/kserve/kserve/cmd/manager")
KARPENTER = Binary("karpenter-kwok", KARPENTER_VERSION, "sigs.k8s.io/karpenter/kwok")
LWS = Binary("lws-manager", LWS_VERSION, "sigs.k8s.io/lws/cmd")
JOBSET = Binary("jobset-manager", JOBSET_VERSION, "sigs.k8s.io/jobset")
KUEUE = Binary("kueue-manager", KUEUE_VERSION, "sigs.k8s.io/kueue/cmd/kueue", pinned_by=_KSERVE_MODULE)
LOCAL_PATH = Binary("local-path-provisioner", LOCAL_PATH_VERSION, "github.com/rancher/local-path-provisioner")
COREDNS = Binary("coredns", COREDNS_VERSION, "github.com/coredns/coredns")

CONTROL_PLANE = (APISERVER, CONTROLLER_MANAGER, SCHEDULER, KUBECTL)
KUBERNETES = (*CONTROL_PLANE, KUBELET, KUBE_PROXY)
ALL = (ETCD, *CONTROL_PLANE, VERSITYGW)
SOURCES = (FAKE_GCS, REGISTRY)  # only for tests of sources
OPERATORS = (KSERVE, KARPENTER, LWS, JOBSET, KUEUE)
SET_UP = (*ALL, HELM, *SOURCES, *OPERATORS)  # those beyond ALL are only for tests; the demo works without them
NODE = (KUBELET, KUBE_PROXY, CONTAINERD, CONTAINERD_SHIM, CTR, COREDNS)  # for tests on a real node, which need root
NODE_SET_UP = (*NODE, LOCAL_PATH)  # with a storage provisioner, for tests of dynamically provisioned volumes


@dataclass(frozen=True)
class Binaries:
    """The path of each program."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    versitygw: Path


def cache_dir(env: Mapping[str, str]) -> Path:
    """Return the directory outside the repository that stores built programs by version."""
    if own := env.get("LARDER_CACHE"):
        return Path(own)
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "larder"


def cached(binary: Binary, cache: Path) -> Path:
    """Return the path of this version of a program in the cache."""
    return cache / "bin" / binary.folder / binary.name


def locate(binary: Binary, env: Mapping[str, str]) -> Path | None:
    """Return the program from KUBEBUILDER_ASSETS or the cache; None if neither has it."""
    places = [cached(binary, cache_dir(env))]
    if assets := env.get("KUBEBUILDER_ASSETS"):
        places.insert(0, Path(assets) / binary.name)
    return next((place for place in places if os.access(place, os.X_OK) and place.is_file()), None)


def missing(env: Mapping[str, str], wanted: Iterable[Binary] = ALL) -> list[Binary]:
    """Return the programs that are neither in KUBEBUILDER_ASSETS nor in the cache."""
    return [binary for binary in wanted if locate(binary, env) is None]


def find(env: Mapping[str, str]) -> Binaries:
    """Return all programs; raises MissingBinaries, which says how to get them."""
    found = {binary.name.replace("-", "_"): locate(binary, env) for binary in ALL}
    absent = [name.replace("_", "-") for name, path in found.items() if path is None]
    if absent:
        raise MissingBinaries(
            f"{', '.join(absent)} not found in KUBEBUILDER_ASSETS ({env.get('KUBEBUILDER_ASSETS', 'not set')}) "
            f"or {cache_dir(env) / 'bin'}; run: make setup && .venv/bin/python -m rig setup"
        )
    return Binaries(**{name: path for name, path in found.items() if path is not None})

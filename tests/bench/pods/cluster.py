"""The cluster of the bench: one real node with Larder, the models on it and in a bucket, and all images loaded."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.binaries import cache_dir
from rig.errors import SetupFailed
from rig.model import write_model
from rig.node import images
from rig.node.buildah import Buildah, Recipe
from rig.node.cluster import NodeCluster
from rig.node.installation import Installation
from rig.node.prepare import tools, unmet_requirements
from rig.node.sources import sources_on
from rig.progress import Notify
from tests.bench.pods.contenders import INITIALIZER, BenchModel

NODE = "one"
NAMESPACE = "bench"
_BUCKET = "bench"
_SELECTOR = {"bench": "yes"}
_IMAGE = Path(__file__).with_name("initializer")


@contextmanager
def bench_cluster(work: Path, notify: Notify) -> Iterator[Installation]:
    """Run everything during a block. Raises SetupFailed if this machine cannot run real nodes."""
    if found := unmet_requirements(os.environ):
        raise SetupFailed(f"pods need a real node: {'; '.join(found)}")
    cache = cache_dir(os.environ)
    archives, buildah = images.build_all(cache, notify), Buildah(cache)
    notify(f"building {INITIALIZER} ...")
    buildah.build(Recipe(INITIALIZER, _IMAGE / "Dockerfile", _IMAGE, {"BASE": images.BASE}))
    archives.append(buildah.archive(INITIALIZER))
    with NodeCluster(tools(os.environ), work, cache) as cluster, sources_on(cluster, work) as (hub, s3):
        for archive in archives:
            cluster.load_image(archive)
        notify("starting a node and installing Larder ...")
        cluster.add_node(NODE, _SELECTOR)
        site = Installation(cluster=cluster, hub=hub, s3=s3, folder=work / "models")
        site.install()
        add_namespace(site, NAMESPACE)
        yield site


def add_models(site: Installation, sizes: Sequence[int], notify: Notify) -> list[BenchModel]:
    """Put a model of each size in MiB on the node and in the bucket."""
    return [_add_model(site, size_mib, notify) for size_mib in sizes]


def _add_model(site: Installation, size_mib: int, notify: Notify) -> BenchModel:
    name = f"model-{size_mib}"
    notify(f"preparing a model of {size_mib} MiB ...")
    folder = write_model(site.folder / name, size_bytes=size_mib * 2**20)
    site.hub.push(f"org/{name}", folder)
    site.s3.put_folder(_BUCKET, name, folder)
    site.base_model(f"hf://org/{name}", name=name, nodeSelector=_SELECTOR)
    site.wait_ready("ClusterBaseModel", name)
    return BenchModel(f"{size_mib} MiB", name, f"s3://{_BUCKET}/{name}")


def s3_variables(site: Installation) -> dict[str, str]:
    """Return the environment variables with which KServe's storage initializer finds the bucket."""
    return {
        "AWS_ENDPOINT_URL": site.s3.endpoint,
        "AWS_DEFAULT_REGION": site.s3.region,
        "AWS_ACCESS_KEY_ID": site.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": site.s3.secret_key,
    }


def add_namespace(site: Installation, name: str) -> None:
    """Create a namespace and its service account, which its first pod would otherwise wait for."""
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    site.api.ensure(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})

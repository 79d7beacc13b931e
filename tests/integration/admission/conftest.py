"""Larder's admission webhooks on the session's API server, with two models."""

from collections.abc import Iterator

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel, CatalogNode
from rig.admission import AdmissionSite, admission_site
from rig.binaries import Binaries
from rig.control_plane import ControlPlane


@pytest.fixture(scope="package")
def site(
    control_plane: ControlPlane, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdmissionSite]:
    catalog = MemoryCatalog(
        base_models=[CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://meta/llama@main", "c0ffee")],
        cluster_caches=[CatalogModel("ClusterModelCache", "", "m", "m", "s3://bucket/m", "r1", groups=("gpus",))],
        members={"gpus": [CatalogNode("node", {})]},
        paths={"m": {"sub/config.json", "one.bin"}},
    )
    with admission_site(control_plane, binaries.kubectl, catalog, tmp_path_factory.mktemp("tls")) as running:
        yield running

"""The tutorials of TrainingJobs and of claims by annotation, on a real node with a real provisioner."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import Installation
from rig.node.local_path import CLASS, LocalPath
from tests.readers.console import Shell

ROOT = Path(__file__).parents[2]
_ANSWER_S = 120.0


@pytest.fixture(scope="module")
def storage(site: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPath]:
    """A default storage class that provisions."""
    with LocalPath(site.api, site.cluster.kubeconfig, tmp_path_factory.mktemp("local-path")) as storage:
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        path = f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}"
        site.api.patch(path, {"metadata": {"annotations": default}})
        yield storage
        site.api.patch(path, {"metadata": {"annotations": dict.fromkeys(default)}})


@pytest.fixture(scope="module")
def shell(site: Installation, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A reader's shell in a checkout whose examples use the image of the nodes."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples", folder / "examples")
    for manifest in (folder / "examples" / "training-job", folder / "examples" / "claims-per-replica"):
        path = manifest / "job.yaml"
        path.write_text(path.read_text().replace("busybox:1.37", SANDBOX_IMAGE))
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(site.cluster.tools.plane.kubectl)
    (programs / "larder").symlink_to(Path(sys.executable).parent / "larder")
    environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "KUBECONFIG": str(site.cluster.kubeconfig)}
    return Shell(environ, folder)


@pytest.mark.parametrize("page", ["training-jobs", "volume-claim-templates"])
def test_the_commands_on_the_page_work_and_leave_no_volumes(
    shell: Shell, site: Installation, storage: LocalPath, page: str
) -> None:
    assert shell.follow(ROOT / "docs" / f"{page}.md", _ANSWER_S) > 7
    site.until(lambda: not list(storage.volumes.iterdir()), "the volumes to be gone")

"""Models (`models.example.com`) on a storage class with a real provisioner: from the download to the pods that read."""

import hashlib
import random
from collections.abc import Iterator, Mapping

import pytest

from rig.hub.faults import Stall
from rig.hub.repository import RepositoryAccess
from rig.node.images import AGENT
from rig.node.installation import Installation
from rig.node.local_path import CLASS, LocalPath
from shared.download_report import decode_report
from shared.json_object import Json
from tests.e2e.namespaces import CONFINED, SECURITY, namespace_of_level


@pytest.fixture(scope="module")
def storage(site: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPath]:
    """A storage class that provisions."""
    with LocalPath(site.api, site.cluster.kubeconfig, tmp_path_factory.mktemp("local-path")) as storage:
        yield storage


class ClaimedModel:
    """One Model and its status."""

    def __init__(self, site: Installation, namespace: str, repo: str, **spec: object) -> None:
        self.site, self.namespace, self.name = site, namespace, site.name("mdl")
        self.path = f"/apis/models.example.com/v1alpha1/namespaces/{namespace}/models"
        fields = {
            "source": {"huggingFace": {"repoId": repo}},
            "storage": {"storageClass": CLASS, "size": "64Mi"},
            **spec,
        }
        body = {"apiVersion": "models.example.com/v1alpha1", "kind": "Model", "spec": fields}
        site.api.create(self.path, body | {"metadata": {"name": self.name}})

    @property
    def status(self) -> Json:
        found: Json = self.site.api.get(f"{self.path}/{self.name}").get("status", {})
        return found

    @property
    def job(self) -> str:
        """The path of its download Job."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs/model-download-{self.name}"

    def wait(self, phase: str) -> Json:
        """Wait for a phase, and return the status."""
        self.site.until(lambda: self.status.get("phase") == phase, f"Model {self.name} to be {phase}")
        return self.status

    def wait_reason(self, reason: str) -> str:
        """Wait for the reason of the condition Ready, and return the message of the status."""

        def reasons() -> list[str]:
            return [one["reason"] for one in self.status.get("conditions", []) if one["type"] == "Ready"]

        self.site.until(lambda: reasons() == [reason], f"Model {self.name} to report {reason}")
        return str(self.status["message"])

    def download(self) -> Json:
        """Return the pod of its download Job, once those of former Jobs are gone."""
        found: list[Json] = []

        def is_alone() -> bool:
            found[:] = self.site.pods(f"job-name={self.job.rpartition('/')[2]}", self.namespace)
            return len(found) == 1

        self.site.until(is_alone, f"one pod for the download of Model {self.name}")
        return found[0]

    def user(self, **pod_spec: object) -> Json:
        """Run a Deployment that names the Model in its annotation, and return its pod."""
        web = self.site.workload(
            {"models.example.com/inject": self.name}, self.namespace, main={"securityContext": CONFINED},
            securityContext=SECURITY, **pod_spec,
        )  # fmt: skip
        return self.site.running(web, self.namespace)

    def read(self, pod: Json) -> dict[str, str]:
        """Return the digest of each visible file of the Model in a pod."""
        where = f"$MODEL_{self.name.upper().replace('-', '_')}_MOUNT_PATH"
        listed = self.site.sh(pod, f"cd {where} && find . -type f ! -path './.*' -exec sha256sum '{{}}' ';'")
        lines = (line.split(maxsplit=1) for line in listed.splitlines())
        return {path.removeprefix("./"): digest for digest, path in lines}


def names(site: Installation, namespace: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in site.pods("", namespace)}


def files(seed: int) -> dict[str, bytes]:
    return {"config.json": b'{"seed": %d}' % seed, "sub/model.safetensors": random.Random(seed).randbytes(3 * 2**20)}


def digests(bodies: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(body).hexdigest() for path, body in bodies.items()}


def test_pods_of_a_restricted_namespace_get_the_files_and_keep_them_through_an_update(
    site: Installation, storage: LocalPath
) -> None:
    namespace = namespace_of_level(site, "restricted")
    repo, first, second = f"org/{site.name('repo')}", files(1), files(2)
    site.push(files=first, repo=repo)
    model = ClaimedModel(site, namespace, repo, version="1")
    status = model.wait("Ready")
    assert (status["progress"], status["pvcName"]) == (100, f"model-{model.name}")
    assert model.download()["spec"]["containers"][0]["image"] == AGENT

    old = model.user()
    assert model.read(old) == digests(first)
    mount = f"/models/{model.name}"
    for path in ("config.json", "new"):
        assert "Read-only file system" in site.sh(old, f"(echo x > {mount}/{path}) 2>&1; true")

    site.push(files=second, repo=repo)
    site.api.patch(f"{model.path}/{model.name}", {"spec": {"version": "2"}})
    site.until(lambda: model.status.get("revision") not in ("", status["revision"]), "the update")
    assert model.status["phase"] == "Ready"
    new = model.user()
    assert (model.read(new), model.read(old)) == (digests(second), digests(first))
    (folder,) = storage.volumes.iterdir()
    assert len(list((folder / ".revisions").iterdir())) == 1

    site.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/{old['metadata']['labels']['app']}")
    site.until(lambda: old["metadata"]["name"] not in names(site, namespace), "the pod of the first version to be gone")
    third = files(4)
    served = model.status["revision"]
    site.push(files=third, repo=repo)
    site.api.patch(f"{model.path}/{model.name}", {"spec": {"version": "3"}})
    site.until(lambda: model.status.get("revision") not in ("", served), "the next update")
    assert not (folder / "config.json").exists()
    assert len(list((folder / ".revisions").iterdir())) == 2
    assert (model.read(model.user()), model.read(new)) == (digests(third), digests(second))


@pytest.mark.usefixtures("storage")
def test_a_missing_repository_is_reported_and_deleting_the_job_retries_the_download(site: Installation) -> None:
    namespace = namespace_of_level(site, "restricted")
    repo, bodies = f"org/{site.name('late')}", files(3)
    model = ClaimedModel(site, namespace, repo)
    status = model.wait("Failed")
    assert repo in status["message"]
    (ready,) = (one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == (
        "False",
        "AuthDenied",
    )  # a hub does not reveal missing repositories without a token
    site.push(files=bodies, repo=repo)
    site.api.delete(f"{model.job}?propagationPolicy=Background")
    assert model.wait("Ready")["progress"] == 100
    assert model.read(model.user()) == digests(bodies)


@pytest.mark.usefixtures("storage")
def test_a_private_repository_needs_an_enabled_namespace_and_the_right_token(site: Installation) -> None:
    namespace, token = namespace_of_level(site, "restricted"), "hf_of_the_team"
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    site.api.create(secrets, {"metadata": {"name": "hub"}, "stringData": {"HF_TOKEN": "wrong"}})
    repo, bodies = f"org/{site.name('private')}", files(5)
    site.push(files=bodies, repo=repo, access=RepositoryAccess(frozenset({token})))
    model = ClaimedModel(site, namespace, repo, credentialsSecret="hub")
    assert "Secrets only in the namespaces listed in credentialNamespaces" in model.wait_reason("JobRefused")
    site.install(controller={"drainSeconds": 2}, credentialNamespaces=[namespace])
    try:
        assert "the Secret" in model.wait_reason("AuthDenied")
        model.wait("Failed")  # the reason is reported while the Job still ends
        site.api.patch(f"{secrets}/hub", {"stringData": {"HF_TOKEN": token}})
        site.api.delete(f"{model.job}?propagationPolicy=Background")
        model.wait("Ready")
        assert token not in str(model.download())
        assert model.read(model.user()) == digests(bodies)
    finally:
        site.install(controller={"drainSeconds": 2})


@pytest.mark.usefixtures("storage")
def test_a_download_whose_pod_is_killed_continues_with_the_received_bytes(site: Installation) -> None:
    namespace = namespace_of_level(site, "restricted")
    repo, bodies = f"org/{site.name('large')}", {"model.safetensors": random.Random(6).randbytes(24 * 2**20)}
    site.push(files=bodies, repo=repo)
    site.hub.faults.add(Stall(2 * 2**20), f"*{digests(bodies)['model.safetensors']}")  # where the hub redirects to
    try:
        model = ClaimedModel(site, namespace, repo)
        site.until(lambda: 5 <= model.status.get("progress", 0) < 100, "progress of the download")
        job = f"job-name=model-download-{model.name}"
        (first,) = site.pods(job, namespace)
        site.delete_pod(first, grace_s=0)
        site.until(lambda: any(p["metadata"]["uid"] != first["metadata"]["uid"] for p in site.pods(job, namespace)),
                   "another pod")  # fmt: skip
    finally:
        site.hub.faults.clear()
    model.wait("Ready")
    log = site.cluster.kubectl("logs", model.download()["metadata"]["name"], "-n", namespace)
    assert decode_report(log.splitlines()[-1]).reused_bytes >= 2**20
    assert model.read(model.user()) == digests(bodies)

"""No pod gets a model on a claim before a Job has read its path, whatever prevents the Job from running."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pytest

from rig.larder.site import Site
from shared.json_object import Json
from shared.metadata.reading.termination_message import UNFINISHED, Reading
from tests.integration.system.claims import (
    JOBS,
    LLAMA,
    NAMESPACE,
    admitted,
    claim,
    hand_in,
    job_pod,
    new_job,
    on,
    on_unbound_claim,
    report,
    until_refused,
    volume,
    volume_for,
)

QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
pytestmark = pytest.mark.usefixtures("claims_namespace")
Hinder = Callable[[Site], AbstractContextManager[str]]


@contextmanager
def quota(site: Site, **hard: str) -> Iterator[None]:
    name = site.name("quota")
    limits = {key.replace("_", "/"): value for key, value in hard.items()}
    site.api.create(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": limits}})
    site.until(lambda: bool(site.api.get(f"{QUOTAS}/{name}").get("status", {}).get("hard")), "the quota to hold")
    yield
    site.api.delete(f"{QUOTAS}/{name}")


@contextmanager
def without_jobs(site: Site) -> Iterator[str]:
    with quota(site, **{"count_jobs.batch": "0"}):
        yield on(site, claim(site))


@contextmanager
def without_pods(site: Site) -> Iterator[str]:
    with quota(site, pods="0"):
        yield on(site, claim(site))


@contextmanager
def without_a_node(site: Site) -> Iterator[str]:
    name, label = claim(site, bound=False), site.name("disk")
    term = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    volume(site, name, nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    yield on(site, name)
    site.label("c", {label: "yes"})


@contextmanager
def waiting(site: Site, reason: str) -> Iterator[str]:
    """Report that the Job's container waits, as its kubelet would."""
    model = on(site, claim(site))
    pod = job_pod(site, new_job(site, model))
    report(site, pod, "Running", {"waiting": {"reason": reason, "message": "so it is"}})
    yield model


@pytest.mark.parametrize(
    ("reason", "hinder"),
    [
        ("JobRefused", without_jobs),
        ("NoPod", without_pods),
        ("Unschedulable", without_a_node),
        ("ImageNotPulled", partial(waiting, reason="ImagePullBackOff")),
        ("MountPending", partial(waiting, reason="ContainerCreating")),
        ("ContainerNotStarted", partial(waiting, reason="CreateContainerConfigError")),
    ],
)
def test_pods_are_refused_until_the_job_can_run_and_has_read_the_model(site: Site, reason: str, hinder: Hinder) -> None:
    with hinder(site) as model:
        site.wait_reason("ClusterBaseModel", model, reason)
        until_refused(site, model, reason)
    hand_in(site, new_job(site, model), Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)
    assert site.wait_reason("ClusterBaseModel", model, "OnClaim")
    admitted(site, model)


def end_by_deadline(site: Site, job: Json) -> None:
    site.api.patch(f"{JOBS}/{job['metadata']['name']}", {"spec": {"activeDeadlineSeconds": 1}})


def test_pods_are_refused_after_the_job_gave_up_until_the_next_job_has_read_the_model(site: Site) -> None:
    model = on(site, claim(site))
    job = new_job(site, model)
    report(site, job_pod(site, job), "Running", {"waiting": {"reason": "ErrImagePull", "message": "no such image"}})
    site.wait_reason("ClusterBaseModel", model, "ImageNotPulled")
    end_by_deadline(site, job)
    until_refused(site, model, "so pods wait")
    status = site.status("ClusterBaseModel", model)
    assert (status["state"], status["metadata"]["unchecked"]) == ("In_Transit", True)
    assert "gave up" in site.wait_reason("ClusterBaseModel", model, "ImageNotPulled")
    again = new_job(site, model, (job["metadata"]["name"],))
    until_refused(site, model, "ImageNotPulled")
    hand_in(site, again, Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)
    assert "unchecked" not in site.status("ClusterBaseModel", model)["metadata"]
    admitted(site, model)


def test_a_job_that_ended_early_but_found_the_model_does_not_block_pods(site: Site) -> None:
    model = on(site, claim(site))
    hand_in(site, new_job(site, model), Reading(reason=UNFINISHED, message="it is being read"))
    site.wait_ready("ClusterBaseModel", model)
    (reported,) = (c for c in site.status("ClusterBaseModel", model)["conditions"] if c["type"] == "Metadata")
    assert (reported["status"], reported["reason"]) == ("False", "JobFailed")
    admitted(site, model)


def test_the_first_pod_binds_the_waiting_claim_and_others_are_refused_until_the_model_is_read(site: Site) -> None:
    name, model, job = on_unbound_claim(site)
    site.wait_reason("ClusterBaseModel", model, "WaitForFirstConsumer")
    first = admitted(site, model)["metadata"]["name"]
    until_refused(site, model, f"pod {first} binds PVC {name}")
    volume_for(site, name)
    until_refused(site, model, "Reading")
    hand_in(site, job, Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)
    admitted(site, model)

"""The controller of TrainingJobs."""

from typing import Any

from controller.manager.controller import Controller
from controller.manager.watches import Queue, Watch, itself, on
from controller.state.informer import Informer
from controller.state.pods.model_volumes import ModelVolumes
from controller.trainingjobs.keys import TrainingJobKey
from controller.trainingjobs.objects import JOB_LABEL
from controller.trainingjobs.reconcile import TrainingJobReconciler
from controller.trainingjobs.state import TrainingJobs
from controller.trainingjobs.state_metrics import job_gauges
from controller.trainingjobs.training_pod import TrainingPod
from shared.api.core import PODS
from shared.api.kinds import TRAINING_JOB
from shared.api.training_job import TrainingJob
from shared.kube.objects import Object

SERVICES = "/api/v1/services"


def training_jobs_controller(
    jobs: TrainingJobs, volumes: ModelVolumes, reconciler: TrainingJobReconciler, *, enabled: bool
) -> Controller[TrainingJobKey]:
    """Return the controller; pods, claims and Services trigger the job that controls them.

    If the feature is off, it watches nothing.
    """
    volumes.claim_changed.listen(jobs.signal_owner)
    watched = Informer(TRAINING_JOB.path, TrainingJob, jobs.jobs, TRAINING_JOB)
    pods = Informer(PODS, TrainingPod, jobs.pods, label_selector=JOB_LABEL, name="trainingpods")
    services = Informer(SERVICES, Object, jobs.services, label_selector=JOB_LABEL, name="trainingservices")
    return Controller(
        name="trainingjobs",
        key=TrainingJobKey,
        all_keys=lambda: (TrainingJobKey(*job.key) for job in jobs.jobs),
        for_=(on(jobs.changed, itself, informer=watched if enabled else None),),
        owns=(_batched(jobs, pods if enabled else None), _batched(jobs, services if enabled else None)),
        reconcile=reconciler.reconcile,
        stop=reconciler.stop,
        gauges=lambda: job_gauges(jobs.jobs),
    )


def _batched(jobs: TrainingJobs, informer: Informer[Any] | None) -> Watch[TrainingJobKey]:
    """Return the watch of a job's parts; their changes are batched, for longer the larger the job is."""

    def listen(queue: Queue[TrainingJobKey]) -> None:
        jobs.part_changed.listen(lambda key: queue.add_after(key, jobs.delay_s(key)))

    return Watch(listen, informer)

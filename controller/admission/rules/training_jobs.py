"""The rule for TrainingJobs."""

from controller.admission.catalog.port import Catalog
from controller.admission.rules.check_training_job import check_training_job
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import TRAINING_JOB


async def _check_write(found: Found, _: Catalog, __: AdmissionSettings) -> list[str]:
    return check_training_job(found)


TRAINING_JOB_RULE = AdmissionRule(TRAINING_JOB, _check_write)

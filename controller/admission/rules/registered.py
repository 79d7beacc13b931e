"""The registered admission rules: one module and one line each."""

from controller.admission.rules.base_models import BASE_MODEL_RULE, CLUSTER_BASE_MODEL_RULE
from controller.admission.rules.cluster_model_caches import CLUSTER_MODEL_CACHE_RULE
from controller.admission.rules.groups import GROUP_RULE
from controller.admission.rules.model_caches import MODEL_CACHE_RULE
from controller.admission.rules.models import MODEL_RULE
from controller.admission.rules.training_jobs import TRAINING_JOB_RULE

RULES = (
    BASE_MODEL_RULE,
    CLUSTER_BASE_MODEL_RULE,
    CLUSTER_MODEL_CACHE_RULE,
    MODEL_CACHE_RULE,
    GROUP_RULE,
    MODEL_RULE,
    TRAINING_JOB_RULE,
)

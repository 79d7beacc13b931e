"""The state of Models as metrics; none has a label per Model."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric

from shared.api.model import Model, ModelPhase


def model_gauges(models: Iterable[Model]) -> Iterator[Metric]:
    """Yield the number of Models by phase."""
    counts = Counter(model.status.phase or "Pending" for model in models)
    family = GaugeMetricFamily("larder_model_operator_models", "Models by phase.", labels=["phase"])
    for phase in get_args(ModelPhase):
        family.add_metric([phase], counts[phase])
    yield family

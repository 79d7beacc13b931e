"""Toy (`toys.example.com/v1`): a text, in the colour of its namespace."""

from shared.api.kinds import Definition
from shared.api.meta import ApiStruct
from shared.kube.objects import Object


class ToySpec(ApiStruct, frozen=True, kw_only=True):
    text: str = ""


class ToyStatus(ApiStruct, frozen=True, kw_only=True):
    observed_generation: int = 0
    shown: str = ""


class Toy(Object, frozen=True, kw_only=True):
    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}


TOY = Definition(
    group="toys.example.com",
    version="v1",
    kind="Toy",
    plural="toys",
    short_names=(),
    namespaced=True,
    spec=ToySpec,
    status=ToyStatus,
    columns=(),
)

"""Calls a replica's extender over HTTP, as kube-scheduler does."""

import ssl
from typing import Any

import httpx

from controller.extender.callers import extender_key
from rig.larder.programs import ADMISSION_KEY, ControllerProgram
from shared.json_object import Json

_ANSWER_S = 60.0


class ExtenderClient:
    """A connection to one replica."""

    def __init__(self, controller: ControllerProgram) -> None:
        self._url = f"{controller.url}/scheduler/{extender_key(ADMISSION_KEY)}"
        self._context = ssl.create_default_context(cafile=str(controller.ca))

    def filter(self, pod: Json, nodes: list[str]) -> Json:
        """Return the nodes that a pod fits on, and the reasons for the others."""
        found: Json = self._ask("filter", pod, nodes)
        return found

    def priorities(self, pod: Json, nodes: list[str]) -> dict[str, int]:
        """Return the priority of each node; empty without an answer in time."""
        return {each["Host"]: each["Score"] for each in self._ask("prioritize", pod, nodes)}

    def _ask(self, verb: str, pod: Json, nodes: list[str]) -> Any:
        body = {"Pod": pod, "Nodes": None, "NodeNames": nodes}
        answer = httpx.post(f"{self._url}/{verb}", json=body, verify=self._context, trust_env=False, timeout=_ANSWER_S)
        return answer.raise_for_status().json()

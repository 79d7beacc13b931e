"""Continuously compares labels and completion marks with the data on the disk."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from rig.errors import CallRefused
from tests.integration.agent.node_under_test import Bench, Model

_PAUSE_S = 0.01


class Sentinel:
    """Records when a label or mark was present without complete data, and when a label was missing."""

    def __init__(self, bench: Bench, model: Model) -> None:
        self.lies: list[str] = []
        self.looks = 0
        self.unlabelled = 0
        self._bench, self._model = bench, model
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_PAUSE_S):
            marked = self._mark.exists()
            try:
                labels = self._bench.labels()
            except (httpx.HTTPError, CallRefused):
                labels = set()  # the API server is away
            else:
                self.unlabelled += not self._bench_labels <= labels
            shown = [*(labels & self._bench_labels), *([".completed"] if marked else [])]
            if shown and not self._bench.is_complete(self._model):
                self.lies.append(", ".join(shown))
            self.looks += 1

    @property
    def _mark(self) -> Path:
        return self._bench.snapshot(self._model) / ".completed"

    @property
    def _bench_labels(self) -> set[str]:
        return self._bench.expected_labels(self._model)

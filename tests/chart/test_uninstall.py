"""The hooks of `helm uninstall` and `helm test`, the first on a real API server; tests/e2e runs both as pods."""

import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rig.api import MERGE, Api
from rig.errors import CallRefused
from rig.helm import LARDER
from tests.chart.objects import KINDS

HOOKS: dict[str, Any] = runpy.run_path(str(LARDER / "files" / "hooks.py"))
DEFINITION, FINALIZER = "clusterbasemodels.ome.io", "clusterbasemodels.ome.io/finalizer"
MODELS = "/apis/ome.io/v1beta1/clusterbasemodels"
_PodApi: Any = HOOKS["Api"]
remove_finalizers: Callable[[Any, str, str], int] = HOOKS["remove_finalizers"]


class _Direct(_PodApi):  # type: ignore[misc]  # the hook is no module that could be imported
    """Runs the hook with the client of the test, because there is no service account outside a pod."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def call(self, method: str, path: str, body: object = None) -> object:
        try:
            return self._api.call(method, path, body, MERGE)
        except CallRefused as refusal:
            if refusal.status == HOOKS["NOT_FOUND"]:
                return None
            raise


@pytest.fixture
def hook(api: Api) -> _Direct:
    return _Direct(api)


@contextmanager
def _model(api: Api, name: str, *finalizers: str) -> Iterator[str]:
    spec = {"modelFormat": {"name": "x"}, "storage": {"storageUri": "hf://org/repo"}}
    metadata = {"name": name, "finalizers": finalizers}
    api.create(MODELS, {"apiVersion": "ome.io/v1beta1", "kind": "ClusterBaseModel", "metadata": metadata, "spec": spec})
    try:
        yield f"{MODELS}/{name}"
    finally:
        if api.answers(f"{MODELS}/{name}"):
            api.patch(f"{MODELS}/{name}", {"metadata": {"finalizers": None}})
            api.delete(f"{MODELS}/{name}")


def _finalizers(api: Api, path: str) -> list[str]:
    return list(api.get(path)["metadata"].get("finalizers", []))


def test_our_finalizers_are_removed_and_those_of_others_kept(hook: _Direct, api: Api) -> None:
    with _model(api, "a", FINALIZER, "example.com/theirs") as both, _model(api, "b", "example.com/theirs") as theirs:
        assert remove_finalizers(hook, DEFINITION, FINALIZER) == 1
        assert _finalizers(api, both) == _finalizers(api, theirs) == ["example.com/theirs"]
        assert remove_finalizers(hook, DEFINITION, FINALIZER) == 0


def test_a_model_already_being_deleted_disappears_when_its_finalizer_is_removed(hook: _Direct, api: Api) -> None:
    with _model(api, "c", FINALIZER) as path:
        api.delete(path)
        assert api.answers(path)
        assert remove_finalizers(hook, DEFINITION, FINALIZER) == 1
        assert not api.answers(path)


def test_the_finalizer_is_kept_on_a_kind_of_another_product(hook: _Direct, api: Api) -> None:
    own = HOOKS["OWN_FINALIZER"]
    api.patch(f"{KINDS}/{DEFINITION}", {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}})
    try:
        with _model(api, "d", FINALIZER) as theirs, _model(api, "e", own, FINALIZER) as both:
            assert remove_finalizers(hook, DEFINITION, FINALIZER) == 1
            assert _finalizers(api, theirs) == _finalizers(api, both) == [FINALIZER]
    finally:
        api.patch(f"{KINDS}/{DEFINITION}", {"metadata": {"labels": {"app.kubernetes.io/part-of": "larder"}}})


def test_a_missing_kind_is_skipped(hook: _Direct) -> None:
    assert remove_finalizers(hook, "models.example.com", "x") == 0


def test_every_page_of_a_long_list_is_read(hook: _Direct, api: Api) -> None:
    assert len(list(hook.list(KINDS))) == len(api.get(KINDS)["items"])
    hook_globals = HOOKS["remove_finalizers"].__globals__
    before, hook_globals["PAGE"] = hook_globals["PAGE"], 2
    try:
        assert len(list(hook.list(KINDS))) == len(api.get(KINDS)["items"]) > 2
    finally:
        hook_globals["PAGE"] = before


@pytest.mark.parametrize(
    ("wanted", "made", "ready", "missing"),
    [(3, 1, 1, "2 of 3 agents have no pod"), (3, 3, 0, "none of 3 agents is ready"), (3, 3, 2, ""), (0, 0, 0, "")],
)
def test_the_test_of_the_chart_reports_agents_without_pods_or_not_ready(
    wanted: int, made: int, ready: int, missing: str
) -> None:
    status = {"desiredNumberScheduled": wanted, "currentNumberScheduled": made, "numberReady": ready}
    if not missing:
        assert HOOKS["check_agents"]({"status": status}, "ns") == f"agents: {ready} of {wanted} ready"
        return
    with pytest.raises(SystemExit, match=missing):
        HOOKS["check_agents"]({"status": status}, "ns")

"""The API paths of objects that a user asks about, or that an object names as its owner."""

import pytest

from controller.cli.why.discovery import ServedKind

POD = ServedKind("", "v1", "Pod", "pods", namespaced=True, names=frozenset(("pod",)))


def test_a_resource_has_a_path_for_one_object_and_for_all() -> None:
    assert POD.path("team", "web-0") == "/api/v1/namespaces/team/pods/web-0"
    assert POD.path("team") == "/api/v1/namespaces/team/pods"


@pytest.mark.parametrize("name", ["web/proxy/delete", "../../kube-system/services/x:/proxy", "web?watch=true", "a#b"])
def test_special_characters_in_a_name_cannot_change_the_path(name: str) -> None:
    found = POD.path("team", name)
    assert found.startswith("/api/v1/namespaces/team/pods/")
    assert not set("/?#") & set(found.removeprefix("/api/v1/namespaces/team/pods/"))

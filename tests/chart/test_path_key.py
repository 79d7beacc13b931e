"""The secret part of the webhooks' path, on a real API server across upgrades."""

import re
from base64 import b64decode

from rig.api import Api
from rig.helm import LARDER, Helm
from tests.chart.conftest import NAMESPACE, VALUES

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-admission"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
OTHER = "another-key-of-more-than-thirty-two-characters"


def _keys(api: Api) -> list[str]:
    """Return the keys that the controller accepts; every webhook must use the first."""
    keys = b64decode(api.get(SECRET)["data"]["keys"]).decode().split("\n")
    for kind in ("mutating", "validating"):
        webhooks = api.get(f"{REGISTRATION}/{kind}webhookconfigurations/larder")["webhooks"]
        paths = {w["clientConfig"]["service"]["path"].split("/")[2] for w in webhooks}
        assert paths == {keys[0]}
    return keys


def test_upgrades_keep_the_path_key_until_it_is_changed_or_deleted(api: Api, cluster: Helm) -> None:
    (made,) = _keys(api)
    assert re.fullmatch("[a-z0-9]{48}", made)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _keys(api) == [made]
    for keys in ([made, OTHER], [OTHER, made], [OTHER]):
        cluster.upgrade(LARDER, {**VALUES, "admission": {**VALUES["admission"], "pathKeys": keys}}, NAMESPACE)  # type: ignore[dict-item]
        assert _keys(api) == keys
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _keys(api) == [OTHER], "an upgrade without a key keeps the existing one"
    api.delete(SECRET)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    (again,) = _keys(api)
    assert again not in (made, OTHER)

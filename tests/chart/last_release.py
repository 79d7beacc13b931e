"""The charts of the last release, as `releases/README.md` says."""

import shutil
import tarfile
from pathlib import Path

from rig.helm import LARDER

_RELEASES = Path(__file__).with_name("releases")
_KEY_ENV = "LARDER_ADMISSION_KEYS"
_PATH = "path: {{ index . 1 }}"
_KEY_PATH = 'path: {{ printf "/admission/%s%s" (include "larder.pathKeys" $root | fromJsonArray | first) (index . 1) }}'
_CLAIMS = "    resources: [persistentvolumeclaims]\n    verbs: [get, list, watch]\n"
_CLAIMS_AND_VOLUMES = _CLAIMS.replace("persistentvolumeclaims", "persistentvolumes, persistentvolumeclaims")
_GROUPS = "    resources: [modelcachenodegroups]\n    verbs: [get, list, watch]\n"
_GROUPS_AND_CACHES = _GROUPS.replace("modelcachenodegroups", "modelcachenodegroups, modelcaches")
_DEFINITION = "      - clustermodelcaches.serving.kserve.io\n"
_MORE = ("modelcaches.serving.kserve.io", "models.models.example.com", "trainingjobs.larder.dev")
_DEFINITIONS = _DEFINITION + "".join(f"      - {name}\n" for name in _MORE)
_HOST_PATHS = "            - {name: LARDER_MOUNT, value: hostPath}\n"
_IN_CONTROLLER = (  # a line of the release, and its replacement
    (
        "            - {name: LARDER_CA, value: /etc/larder/tls/ca.crt}\n",
        f"            - {{name: {_KEY_ENV}, value: /etc/larder/admission/keys}}\n{_HOST_PATHS}",
    ),
    (
        "            - {name: tls, mountPath: /etc/larder/tls, readOnly: true}\n",
        "            - {name: admission, mountPath: /etc/larder/admission, readOnly: true}\n",
    ),
    (
        "      volumes:\n",
        "        - name: admission\n          secret: {secretName: larder-admission, defaultMode: 0440}\n",
    ),
)


def last_release(chart: Path) -> Path:
    """Return the last release of a chart in this checkout; there must be exactly one."""
    (found,) = _RELEASES.glob(f"{chart.name}-[0-9]*.tgz")
    return found


def last_release_for_todays_images(into: Path) -> Path:
    """Unpack the last release of Larder's chart, give it what today's images need, and return it.

    Images of 0.1.0-alpha.1 are nowhere, so today's stand in for them. The controller does not start without a path key,
    whose Secret is rendered as in today's chart, nor without the rights to list volumes and ModelCaches and to read the
    definitions of all kinds. It mounts host paths, as that release did. All else is as it was released. Once `releases`
    has charts with a key, this raises, and can be removed.
    """
    with tarfile.open(last_release(LARDER)) as packed:
        packed.extractall(into, filter="data")
    templates = into / LARDER.name / "templates"
    controller = templates / "controller.yaml"
    text = controller.read_text()
    if _KEY_ENV in text:
        raise ValueError(f"{last_release(LARDER)} has a path key: install it as it is, and remove this function")
    for line, addition in _IN_CONTROLLER:
        text = _replaced(text, line, line + addition)
    controller.write_text(text)
    roles = templates / "controller-rbac.yaml"
    rules = roles.read_text()
    for line, more in ((_CLAIMS, _CLAIMS_AND_VOLUMES), (_GROUPS, _GROUPS_AND_CACHES), (_DEFINITION, _DEFINITIONS)):
        rules = _replaced(rules, line, more)
    roles.write_text(rules)
    webhooks = templates / "webhooks.yaml"
    webhooks.write_text(_replaced(webhooks.read_text(), _PATH, _KEY_PATH))
    for name in ("_admission.tpl", "admission.yaml"):
        shutil.copy(LARDER / "templates" / name, templates)
    return into / LARDER.name


def _replaced(text: str, line: str, by: str) -> str:
    """Return the text with the only such line replaced; raises ValueError unless there is exactly one."""
    if text.count(line) != 1:
        raise ValueError(f"the last release has {text.count(line)} times: {line}")
    return text.replace(line, by)

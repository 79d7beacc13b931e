"""There is exactly one last release, from which upgrades are tested; it is older than the chart."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from controller.settings import ControllerSettings
from rig.helm import LARDER, LARDER_CRDS, Helm
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE
from tests.chart.last_release import last_release, last_release_for_todays_images
from tests.chart.objects import only


def _order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return a sort key for a version: pre-releases come before their release."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.]+))?", version)
    assert found, version
    return tuple(map(int, found.groups()[:3])), found[4] is None, found[4] or ""


def test_versions_are_ordered_by_semantic_versioning() -> None:
    versions = ["0.1.0-alpha.1", "0.1.0-rc.1", "0.1.0", "0.2.0-alpha.1", "0.10.0", "1.0.0"]
    assert all(_order(older) < _order(newer) for older, newer in pairwise(versions))


@pytest.mark.parametrize("chart", [LARDER, LARDER_CRDS], ids=lambda chart: chart.name)
def test_the_last_release_is_older_than_the_chart(chart: Path, helm: Helm) -> None:
    released = yaml.safe_load(helm.run("show", "chart", str(last_release(chart))))
    coming = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert released["name"] == coming["name"]
    assert _order(released["version"]) < _order(coming["version"])


def test_immutable_fields_of_workloads_do_not_change_between_releases(helm: Helm) -> None:
    """A selector is immutable: if it changed, `helm upgrade` would fail for every user of the release."""
    old, new = (helm.template(chart, {}, NAMESPACE) for chart in (last_release(LARDER), LARDER))
    for kind, name in (("Deployment", "larder-controller"), ("DaemonSet", "larder-agent")):
        before, after = _unchangeable(only(old, kind, name)), _unchangeable(only(new, kind, name))
        assert before == after, name


def _unchangeable(workload: Json) -> object:
    return workload["spec"]["selector"]


def test_the_last_release_is_changed_only_as_far_as_current_images_need_it(helm: Helm, tmp_path: Path) -> None:
    """Upgrade tests start from the last release with current images; only what these need to start is added."""
    released, proposed = (
        {(o["kind"], o["metadata"]["name"]): o for o in helm.template(chart, {}, NAMESPACE)}
        for chart in (last_release(LARDER), last_release_for_todays_images(tmp_path))
    )
    assert proposed.keys() - released.keys() == {("Secret", "larder-admission")}
    changed = {key[0] for key, before in released.items() if proposed[key] != before and key[0] != "Secret"}
    assert changed == {"ClusterRole", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    pod = proposed["Deployment", "larder-controller"]["spec"]["template"]["spec"]
    assert {"LARDER_ADMISSION_KEYS", "LARDER_MOUNT"} <= {v["name"] for v in pod["containers"][0]["env"]}


def test_values_of_the_last_release_are_still_accepted(helm: Helm) -> None:
    """Users who keep their values get no error from the schema."""
    values = yaml.safe_load(helm.run("show", "values", str(last_release(LARDER))))
    assert helm.template(LARDER, values, NAMESPACE)


def test_the_controller_starts_with_values_reused_from_the_last_release(
    helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`helm upgrade --reuse-values` renders today's templates with the values of the last release alone."""
    chart = tmp_path / "larder"
    shutil.copytree(LARDER, chart)
    (chart / "values.yaml").write_text(helm.run("show", "values", str(last_release(LARDER))))
    deployment = only(helm.template(chart, {}, NAMESPACE), "Deployment", "larder-controller")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", "x"))
    settings, usual = ControllerSettings(), ControllerSettings.model_fields
    for name in ("models_per_node", "resolutions_per_minute"):
        assert getattr(settings, name) == usual[name].default
    assert settings.manifest_bytes_per_namespace == 64 * 2**20

"""Failures are in the condition, the health check and the metrics."""

from prometheus_client import CollectorRegistry, generate_latest

from agent.devices.metrics import DeviceCollector
from agent.devices.report import DeviceReport, device_condition, health_note
from tests.readers.metrics import samples

GOOD = DeviceReport(3, ("example", "models"), resources=(9, 2))
BAD = DeviceReport(3, ("models",), {"toy": "it broke", "car": "no wheels"}, resources=(9, 0))
REFUSED = DeviceReport(3, ("models",), {}, ("Refused", "nodes/status is forbidden"))


def state_of(report: DeviceReport) -> tuple[str, str, str]:
    found = device_condition(report)
    return found.status, found.reason, found.message


def test_the_condition_names_plugins_that_are_left_out_and_why() -> None:
    assert state_of(DeviceReport()) == ("Unknown", "Starting", "the device plugins have not answered yet")
    assert state_of(GOOD) == ("True", "AllPlugins", "advertised by example, models")
    assert state_of(BAD) == ("False", "PluginFailed", "car: no wheels; toy: it broke")
    assert state_of(REFUSED) == ("False", "Refused", "nodes/status is forbidden")
    many = DeviceReport(1, (), {f"plugin-{n}": "x" * 500 for n in range(100)})
    assert len(device_condition(many).message) <= 4000


def test_the_health_check_names_the_plugins() -> None:
    assert health_note(GOOD) == ""
    assert health_note(BAD) == "device plugins left out: car, toy"


def test_the_metrics_have_a_sample_for_each_plugin() -> None:
    registry = CollectorRegistry()
    registry.register(DeviceCollector(lambda: BAD, {"annotations": 4}))
    assert samples(generate_latest(registry).decode()) == {
        'larder_device_plugin_advertised{plugin="car"}': 0,
        'larder_device_plugin_advertised{plugin="models"}': 1,
        'larder_device_plugin_advertised{plugin="toy"}': 0,
        'larder_device_resources{place="annotation"}': 9,
        'larder_device_resources{place="status"}': 0,
        "larder_device_polls_total": 3,
        'larder_device_writes_total{what="annotations"}': 4,
        'larder_device_writes_total{what="status"}': 0,
        "larder_devices_advertised": 1,
    }


def test_devices_count_as_advertised_only_after_a_successful_write() -> None:
    assert [_advertised(report) for report in (DeviceReport(), REFUSED, GOOD)] == [0, 0, 1]


def _advertised(report: DeviceReport) -> float:
    registry = CollectorRegistry()
    registry.register(DeviceCollector(lambda: report, {}))
    return samples(generate_latest(registry).decode())["larder_devices_advertised"]

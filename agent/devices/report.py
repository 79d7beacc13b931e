"""Reports the node's devices in a condition of the ModelNode and at the health endpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api.meta import Condition
from shared.api.model_node import DEVICES_ADVERTISED

_LONGEST_MESSAGE = 4000


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """The result of the last poll of all plugins.

    Args:
        polls: How many polls have ended.
        plugins: The plugins whose devices are advertised.
        failures: The reasons why others are left out, by plugin.
        refusal: The reason and message if the Node could not be updated; otherwise None.
        resources: How many resources are in the annotation, and how many are extended resources.
    """

    polls: int = 0
    plugins: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    refusal: tuple[str, str] | None = None
    resources: tuple[int, int] = (0, 0)


def device_condition(report: DeviceReport) -> Condition:
    """Return the condition; `lastTransitionTime` and `observedGeneration` are left empty."""
    if not report.polls:
        return _condition("Unknown", "Starting", "the device plugins have not answered yet")
    if report.refusal:
        return _condition("False", *report.refusal)
    if report.failures:
        return _condition("False", "PluginFailed", "; ".join(_failures(report)))
    return _condition("True", "AllPlugins", f"advertised by {', '.join(report.plugins) or 'no plugin'}")


def health_note(report: DeviceReport) -> str:
    """Return a line for the health endpoint; empty without failures. The reasons are in the log."""
    return f"device plugins left out: {', '.join(sorted(report.failures))}" if report.failures else ""


def _failures(report: DeviceReport) -> list[str]:
    return [f"{plugin}: {reason}" for plugin, reason in sorted(report.failures.items())]


def _condition(status: str, reason: str, message: str) -> Condition:
    message = message[:_LONGEST_MESSAGE]
    return Condition(type=DEVICES_ADVERTISED, status=status, reason=reason, message=message, last_transition_time="")

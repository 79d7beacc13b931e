import msgspec

from agent.reporter import transitions, with_since
from shared.api.model_node import EntryStatus, ModelNodeStatus

NOW = "2026-11-21T12:00:00Z"
BEFORE = "2026-11-20T12:00:00Z"


def status(*entries: EntryStatus, **fields: int) -> ModelNodeStatus:
    return msgspec.structs.replace(ModelNodeStatus(node_uid="n", entries=list(entries)), **fields)


def entry(phase: str, since: str = "", message: str = "") -> EntryStatus:
    return EntryStatus(id="llama", revision="r1", phase=phase, since=since, message=message)


def test_a_phase_keeps_its_date_until_it_changes() -> None:
    kept = with_since(status(entry("Ready", message="new")), status(entry("Ready", BEFORE)), NOW)
    assert [(e.since, e.message) for e in kept.entries] == [(BEFORE, "new")]
    changed = with_since(status(entry("Repairing")), status(entry("Ready", BEFORE)), NOW)
    assert [e.since for e in changed.entries] == [NOW]
    assert [e.since for e in with_since(status(entry("Pending")), status(), NOW).entries] == [NOW]


def test_figures_and_texts_alone_are_no_transition() -> None:
    assert transitions(status(entry("Failed", message="need 5"), used=1)) == transitions(
        status(entry("Failed", message="need 6"), used=2, disk_free=9)
    )


def test_a_phase_a_limit_or_a_generation_is_one() -> None:
    known = transitions(status(entry("Ready")))
    assert transitions(status(entry("Repairing"))) != known
    assert transitions(status(entry("Ready"), limit=5)) != known
    assert transitions(status(entry("Ready"), observed_generation=2)) != known
    assert transitions(status()) != known

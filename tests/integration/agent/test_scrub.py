"""The scrub of a running agent."""

import os
import random

from tests.integration.agent.node_under_test import Bench
from tests.integration.store.kernel_view import (
    IDLE,
    flags_of_open,
    io_class_of,
    nice_of,
    skip_without_direct_reads,
    threads_of,
)

FILES = {"config.json": b'{"a": 1}', "model.safetensors": random.Random(9).randbytes(6_000_000)}
SLOW = "100000"  # a minute for the large file


def test_the_scrub_runs_in_one_idle_priority_thread_with_direct_reads(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start("--scrub-rate", "0").wait_ready(lambda: bench.has_labels(model), 60, "stocked")
    assert not any(io_class_of(thread) == IDLE for thread in threads_of(bench.agents[-1].pid))
    bench.agents[-1].stop()

    agent, flags = bench.start("--scrub-rate", SLOW), list[int]()

    def reads() -> bool:
        flags[:] = flags_of_open(agent.pid, bench.root / "blobs" / "sha256")
        return flags != []

    bench.wait_for(reads, "the scrub to read a file")
    (idle,) = (thread for thread in threads_of(agent.pid) if io_class_of(thread) == IDLE)
    assert nice_of(agent.pid, idle) == 19
    assert nice_of(agent.pid, agent.pid) == os.getpriority(os.PRIO_PROCESS, 0)  # the loop has what it was started with
    skip_without_direct_reads(bench.snapshot(model) / "config.json")
    assert all(each & os.O_DIRECT for each in flags)

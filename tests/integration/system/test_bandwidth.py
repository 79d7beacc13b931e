"""A node group's bandwidth limit, edited while its nodes download."""

import os

from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.ports import LOOPBACK
from tests.readers.metrics import scrape

LIMIT = "larder_download_rate_limit_bytes_per_second"
STARTED = 'larder_downloads_started_total{kind="download"}'
RECEIVED = 'larder_downloaded_bytes_total{source="hf"}'
SLOW = 20_000
AN_HOUR_BYTES = 3600 * SLOW


def agent(site: Site) -> dict[str, float]:
    return scrape(f"http://{LOOPBACK}:{site.cluster.agents['c'].port}")


def limit(site: Site, group: str, value: str | None) -> None:
    """Edit the group, and wait until the agent of its node reports the new limit."""
    site.api.patch(path_of("ModelCacheNodeGroup", group), {"spec": {"bandwidthLimit": value}})
    expected = 0 if value is None else int(value)
    site.until(lambda: agent(site)[LIMIT] == expected, f"the agent to have the limit {expected}")


def test_a_changed_bandwidth_limit_applies_to_a_running_download(site: Site) -> None:
    labels = {"pace": site.name("p")}
    group = site.group(labels, bandwidthLimit=str(SLOW))
    site.label("c", labels)
    site.until(lambda: agent(site)[LIMIT] == SLOW, "the agent to have the first limit")
    before = agent(site)
    name = site.cache(site.push(files={"w.bin": os.urandom(AN_HOUR_BYTES)}), group=group)
    site.until(lambda: agent(site)[RECEIVED] > before[RECEIVED], "the first bytes")
    site.until(lambda: site.phases("c", name) == ["Downloading"], "the download to be reported")
    limit(site, group, str(2 * SLOW))
    assert site.phases("c", name) == ["Downloading"]
    limit(site, group, str(2**40))
    site.wait_ready("ClusterModelCache", name)  # within two minutes
    after = agent(site)
    assert after[STARTED] - before[STARTED] == 1  # it was not restarted for another limit
    assert after[RECEIVED] - before[RECEIVED] >= AN_HOUR_BYTES
    limit(site, group, None)

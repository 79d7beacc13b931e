"""`larder gc` after objects were deleted without what they own."""

import os
import subprocess
import sys

from rig.larder.objects import path_of
from rig.larder.site import Site
from tests.integration.system.download_pods import CLAIMS, JOBS, ready_model
from tests.integration.system.training import train, wait_claims


def gc(site: Site, *arguments: str) -> dict[str, str]:
    """Run the command as an administrator would, and return the line of each claim."""
    argv = [sys.executable, "-m", "shared.cli", "gc", f"--kubeconfig={site.cluster.plane.kubeconfig}", *arguments]
    wide = os.environ | {"COLUMNS": "200"}  # a row per line
    done = subprocess.run(argv, env=wide, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[1]: " ".join(words) for words in lines if len(words) > 2}


def test_orphaned_claims_of_a_model_and_a_training_job_are_found_and_deleted(site: Site) -> None:
    model, job, stays = ready_model(site), train(site), train(site)
    (left,) = wait_claims(site, job, 1)
    (owned,) = wait_claims(site, stays, 1)
    assert not {f"model-{model}", left, owned} & gc(site).keys()
    for kind, name in (("Model", model), ("TrainingJob", job)):
        site.api.delete(f"{path_of(kind, name)}?propagationPolicy=Orphan")
        site.until(lambda kind=kind, name=name: site.is_gone(kind, name), f"{kind} {name} to be gone")  # type: ignore[misc]
    site.api.delete(f"/api/v1/namespaces/default/pods/{job}-worker-0", grace_s=0)  # it mounts the claim

    shown = gc(site)
    for claim in (f"model-{model}", left):
        assert "would be deleted" in shown[claim]
        assert site.api.answers(f"{CLAIMS}/{claim}")
    assert owned not in shown

    download = f"model-download-{model}"
    assert f"deleted; it disappears once pod {download}-" in gc(site, "--delete")[f"model-{model}"]
    site.api.delete(f"{JOBS}/{download}?propagationPolicy=Background")
    for claim in (f"model-{model}", left):
        site.until(lambda claim=claim: not site.api.answers(f"{CLAIMS}/{claim}"), f"{claim} to be gone")  # type: ignore[misc]
    assert site.api.answers(f"{CLAIMS}/{owned}")
    site.delete("TrainingJob", stays)

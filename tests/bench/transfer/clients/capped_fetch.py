"""Run by the bench: capped_fetch.py BYTES_A_SECOND ROOT URI...: several models into one store under one limit."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from shared.sources.port import ANONYMOUS
from shared.sources.schemes import open_source
from shared.sources.settings import settings_from_environ
from shared.uri.model_uri import parse_uri


def main(rate: str, root: str, *uris: str) -> None:
    """Fetch all models at the same time, as an agent with a bandwidth limit does."""
    bucket, stop = RateLimiter(float(rate)), threading.Event()
    settings = settings_from_environ(os.environ)
    store = Store.open(Path(root))

    def bring(uri: str) -> None:
        source = open_source(parse_uri(uri), ANONYMOUS, settings)
        try:
            fetch(source, DownloadPlan(source.resolve()), store, progress=Progress(), stop=stop, rate_limiter=bucket)
        finally:
            source.close()

    with ThreadPoolExecutor(len(uris)) as threads:
        list(threads.map(bring, uris))
    store.close()


main(*sys.argv[1:])

"""Run by the bench: obstore_download.py URL TARGET CONNECTIONS < LIST; s3:// finds the server in the environment."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore  # type: ignore[import-not-found]  # it is in the peers' environment only
from obstore.store import from_url  # type: ignore[import-not-found]  # as above

_MIB = 2**20


def main(url: str, target: str, connections: str) -> None:
    """Stream the listed files to the disk, several at a time."""
    store = from_url(url, client_options={"allow_http": True})

    def download(path: str) -> None:
        with (Path(target) / path).open("wb", buffering=0) as out:
            for piece in obstore.get(store, path).stream(min_chunk_size=_MIB):
                out.write(piece)

    with ThreadPoolExecutor(int(connections)) as threads:
        list(threads.map(download, sys.stdin.read().split()))


main(*sys.argv[1:])

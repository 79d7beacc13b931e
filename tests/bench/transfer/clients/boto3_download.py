"""Run by the bench: boto3_download.py BUCKET PREFIX TARGET CONNECTIONS < LIST."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from botocore.config import Config

_POOL = 40


def main(bucket: str, prefix: str, target: str, connections: str) -> None:
    """Download the listed files, several at a time, each with boto3's defaults."""
    client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}, max_pool_connections=_POOL))

    def download(path: str) -> None:
        client.download_file(bucket, f"{prefix}/{path}", str(Path(target) / path))

    with ThreadPoolExecutor(int(connections)) as threads:
        list(threads.map(download, sys.stdin.read().split()))


main(*sys.argv[1:])

"""Run by the bench: awscrt_download.py BUCKET PREFIX TARGET CONNECTIONS < LIST.

boto3's own switch to awscrt cannot do without TLS; this is what it and the AWS CLI do below that.
"""

import os
import sys
from pathlib import Path

import botocore.session
from botocore.config import Config
from s3transfer import crt  # type: ignore[import-untyped]  # it ships no types


def main(bucket: str, prefix: str, target: str, _connections: str) -> None:
    """Download the listed files, as many at a time as the library chooses."""
    session = botocore.session.get_session()
    endpoint, region = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]
    arguments = {"endpoint_url": endpoint, "region_name": region, "config": Config(s3={"addressing_style": "path"})}
    credentials = crt.BotocoreCRTCredentialsWrapper(session.get_credentials())
    client = crt.create_s3_crt_client(region, credentials.to_crt_credentials_provider(), use_ssl=False)
    manager = crt.CRTTransferManager(client, crt.BotocoreCRTRequestSerializer(session, arguments))
    with manager:
        futures = [
            manager.download(bucket, f"{prefix}/{path}", str(Path(target) / path)) for path in sys.stdin.read().split()
        ]
        for future in futures:
            future.result()


main(*sys.argv[1:])

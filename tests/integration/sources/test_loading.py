import subprocess
import sys

FETCH = """
import sys
from shared.manifest import File
from shared.errors import LarderError
from shared.sources.port import Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

keys = Credentials({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HF_TOKEN": "c"})
closed = "http://127.0.0.1:9"
settings = SourceSettings(closed, closed, gcs_endpoint=closed, azure_endpoint=closed, oci_endpoint=closed)
digest = "sha256:" + "0" * 64
for uri in (
    "hf://o/m", "s3://bucket/p", "https://127.0.0.1:9/f", "gs://bucket/p", "az://account/container/p",
    "oci://n/ns/b/bucket/o/p", "oci://127.0.0.1:9/m", "local:///tmp/none",
):
    try:
        open_source(parse_uri(uri), keys, settings).open(File("f", 1, digest))
    except LarderError:
        pass
print(sorted(set(sys.modules) & {"boto3", "huggingface_hub", "httpx2", "requests", "botocore", "cryptography"}))
"""


def test_fetching_loads_no_client_library() -> None:
    ran = subprocess.run([sys.executable, "-c", FETCH], capture_output=True, text=True, check=True)  # noqa: S603 - our own text
    assert ran.stdout.strip() == "[]"

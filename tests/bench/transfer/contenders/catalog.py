"""All contenders, and the requested ones that are not available."""

from tests.bench.transfer.contenders import floors, http_tools, hub_client, larder, python_clients, s3_tools
from tests.bench.transfer.contenders.contender import Contender

ALL: tuple[Contender, ...] = (
    *floors.CONTENDERS,
    *larder.CONTENDERS,
    *hub_client.CONTENDERS,
    *http_tools.CONTENDERS,
    *python_clients.CONTENDERS,
    *s3_tools.CONTENDERS,
)

# Over a slow link, only contenders that differ in their connections are of interest.
FAR: tuple[str, ...] = ("C program, fsync", "larder fetch hf://", "curl --parallel", "aria2", "rclone, http")

LEFT_OUT = {
    "hf download over xet": "needs a xet server, which the bench does not have",
    "hf_transfer": "huggingface_hub 2 no longer uses it",
}

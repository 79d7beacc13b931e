"""The child process that reads one model from its source: `python -m controller.metadata.child`.

It gets few of the controller's environment variables, and no secrets except those in the order.
"""

import time

from controller.metadata.order import SourceOrder
from controller.metadata.remote import ReadBudget, read_remote
from shared.errors import LarderError, SourceChanged
from shared.manifest import decode_manifest
from shared.metadata.reading.confined import serve_order
from shared.metadata.reading.termination_message import Reading, failed
from shared.sources.schemes import open_source
from shared.uri.model_uri import parse_uri


def _read(order: SourceOrder) -> Reading:
    try:
        manifest = decode_manifest(order.manifest, order.digest)
        if manifest.revision != order.revision:
            raise SourceChanged(
                f"manifest {order.digest} is for another revision; set annotation larder.dev/refresh to a new value"
            )
        source = open_source(parse_uri(manifest.uri), order.credentials, order.settings)
        return read_remote(source, manifest, order.left_out, ReadBudget(time.monotonic))
    except LarderError as error:
        return failed(error.reason, str(error))


if __name__ == "__main__":
    serve_order(SourceOrder, _read)

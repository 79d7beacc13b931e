"""The child process that reads one model from its source: `python -m controller.metadata.child`.

It gets few of the controller's environment variables, and no secrets except those in the request.
"""

import time

from controller.metadata.read_request import SourceReadRequest
from controller.metadata.remote import ReadBudget, read_remote
from shared.errors import LarderError, SourceChanged
from shared.manifest import decode_manifest
from shared.metadata.reading.confined import serve_request
from shared.metadata.reading.termination_message import Reading, failed
from shared.sources.schemes import open_source
from shared.uri.model_uri import parse_uri


def _read(request: SourceReadRequest) -> Reading:
    try:
        manifest = decode_manifest(request.manifest, request.digest)
        if manifest.revision != request.revision:
            raise SourceChanged(
                f"manifest {request.digest} is for another revision; set annotation larder.dev/refresh to a new value"
            )
        source = open_source(parse_uri(manifest.uri), request.credentials, request.settings)
        return read_remote(source, manifest, request.left_out, ReadBudget(time.monotonic))
    except LarderError as error:
        return failed(error.reason, str(error))


if __name__ == "__main__":
    serve_request(SourceReadRequest, _read)

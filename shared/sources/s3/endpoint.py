"""The endpoint that a Secret names for its bucket; it is checked more strictly than the administrator's."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from shared.errors import AuthDenied
from shared.http.origins import DEFAULT_PORTS
from shared.sources.credential_keys import ENDPOINT_KEY
from shared.sources.settings import SourceSettings

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_FORM = re.compile(rf"https://{_LABEL}(\.{_LABEL})*(:[0-9]{{1,5}})?/?")


def named_endpoint(values: Mapping[str, str], settings: SourceSettings) -> str:
    """Return the endpoint that the credentials name as HOST:PORT, or "" if they may not name one.

    An endpoint that the administrator configured takes precedence. Raises AuthDenied.
    """
    text = values.get(ENDPOINT_KEY, "").strip().lower()
    if not text or settings.s3_endpoint:
        return ""
    try:
        port = urlsplit(text).port if _FORM.fullmatch(text) else 0
    except ValueError:  # invalid port
        port = 0
    if port == 0:
        raise AuthDenied(
            f"the {ENDPOINT_KEY} of the Secret is not an endpoint that a Secret may name; write https://HOST[:PORT], "
            "or ask the administrator to configure it"
        )
    return f"{urlsplit(text).hostname}:{port or DEFAULT_PORTS['https']}"

"""AWS Signature Version 4 for S3 requests without a body."""

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from shared.http.origins import origin_of

_NOTHING = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key; `session_token` is empty for a long-term key."""

    access: str
    secret: str = field(repr=False)
    session_token: str = field(default="", repr=False)


class Signer:
    """Signs requests to one region. The signing key of the day is cached, because all requests share it."""

    def __init__(self, keys: Keys, region: str) -> None:
        self._keys, self._region = keys, region
        self._of_day = ("", b"")  # one tuple, replaced atomically: several threads may sign at midnight

    def sign(self, method: str, url: str, headers: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the headers that sign a request; `now` is in seconds since 1970.

        Path and query of the URL must be final: the query is quoted (RFC 3986) and sorted by name.

        https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        own = {"X-Amz-Date": stamp, "X-Amz-Content-SHA256": _NOTHING}
        if self._keys.session_token:
            own["X-Amz-Security-Token"] = self._keys.session_token
        signed = {name.lower(): " ".join(value.split()) for name, value in {**headers, **own}.items()}
        signed["host"] = origin_of(url).netloc
        names = sorted(signed)
        parts = urlsplit(url)
        lines = (method, parts.path or "/", parts.query, *(f"{name}:{signed[name]}" for name in names), "")
        request = "\n".join((*lines, ";".join(names), _NOTHING))
        scope = f"{stamp[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        proof = _hmac(self._key_of(stamp[:8]), text).hex()
        credential, listed = f"{self._keys.access}/{scope}", ";".join(names)
        own["Authorization"] = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={listed}, Signature={proof}"
        return own

    def _key_of(self, day: str) -> bytes:
        known, key = self._of_day
        if known != day:
            key = f"AWS4{self._keys.secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = _hmac(key, part)
            self._of_day = (day, key)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")

"""A Google-style service account: its key file, and the service that issues tokens for signed assertions."""

import base64
import json
import secrets
import time
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_BITS = 2048
_EMAIL = "reader@rig.iam.test"
_LIFETIME_S = 3600


class GoogleAccount:
    """One account; `answer` is the token service at `token_uri`, and `tokens` are those it has issued."""

    def __init__(self, token_uri: str) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
        self._token_uri = token_uri
        self.tokens: set[str] = set()

    def key_file(self, *, forged: bool = False) -> str:
        """Return the JSON key file of the cloud console; with `forged`, its private key is not the account's."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS) if forged else self._key
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "client_email": _EMAIL,
            "private_key_id": "1",
            "private_key": pem.decode(),
        }
        return json.dumps(account | {"token_uri": self._token_uri})

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the token service for a request."""
        form = parse_qs(body.decode())
        if form.get("grant_type") != ["urn:ietf:params:oauth:grant-type:jwt-bearer"] or not self._is_ours(
            form.get("assertion", [""])[0]
        ):
            return 400, b'{"error": "invalid_grant"}'
        token = secrets.token_urlsafe(24)
        self.tokens.add(token)
        return 200, json.dumps({"access_token": token, "expires_in": _LIFETIME_S, "token_type": "Bearer"}).encode()

    def _is_ours(self, assertion: str) -> bool:
        signed, _, signature = assertion.rpartition(".")
        try:
            self._key.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        claims = json.loads(_decoded(signed.partition(".")[2]))
        right = claims["iss"] == _EMAIL and claims["aud"] == self._token_uri and "devstorage" in claims["scope"]
        return right and claims["iat"] <= time.time() + 1 and time.time() < claims["exp"]


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

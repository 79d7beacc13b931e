"""The token service of a registry: issues pull permissions as tokens that the registry checks."""

import base64
import json
import secrets
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from rig.scripted_http import ScriptedRequest, reply

SERVICE = ISSUER = "rig"
_BITS, _KEY_ID, _LIFETIME_S = 2048, "rig", 300


class RegistryTokens:
    """One user with a password; only this user may pull `private` repositories, everybody may pull the others."""

    user = "reader"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
        self.password = secrets.token_urlsafe(24)
        self.private: set[str] = set()

    def docker_config(self, registry: str, *, password: str = "") -> str:
        """Return the text of a docker config with the account for the registry."""
        auth = base64.b64encode(f"{self.user}:{password or self.password}".encode()).decode()
        return json.dumps({"auths": {registry: {"auth": auth}}})

    def write_jwks(self, path: Path) -> None:
        """Write the public key in the format of the registry."""
        numbers = self._key.public_key().public_numbers()
        parts = {"n": _of_number(numbers.n), "e": _of_number(numbers.e)}
        path.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": _KEY_ID, "alg": "RS256", "use": "sig"} | parts]}))

    def answer(self, asked: ScriptedRequest) -> bytes:
        """Return the response to a request for a token; a wrong password gets status 401."""
        authorization = asked.headers.get("authorization", "")
        account = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if authorization and authorization != f"Basic {account}":
            return reply(401)
        scope = parse_qs(urlsplit(asked.target).query).get("scope", ["repository::pull"])[0]
        repository = scope.split(":")[1]
        may = bool(authorization) or repository not in self.private
        return reply(200, json.dumps({"token": self.token(repository, ["pull"] if may else [])}).encode())

    def token(self, repository: str, actions: list[str]) -> str:
        """Return a signed token for these actions on a repository."""
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": SERVICE, "sub": self.user, "nbf": now - 1, "iat": now, "exp": now + _LIFETIME_S,
            "jti": secrets.token_hex(8), "access": [{"type": "repository", "name": repository, "actions": actions}],
        }  # fmt: skip
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        text = f"{_encoded(json.dumps(head).encode())}.{_encoded(json.dumps(claims).encode())}"
        return f"{text}.{_encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _of_number(number: int) -> str:
    return _encoded(number.to_bytes((number.bit_length() + 7) // 8, "big"))

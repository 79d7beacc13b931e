"""Signing by an RSA key in PEM, as cloud accounts have them: PKCS #1 v1.5 with SHA-256 (RFC 8017, section 8.2.1).

The key is of the one who runs this and the signature goes to his own account, so time that depends on the key tells
nobody anything; a key that is broken or made up is noticed, because each signature is checked.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field

_PEM = re.compile(r"-----BEGIN (RSA )?PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END (?:RSA )?PRIVATE KEY-----")
_LONGEST_PEM = 16 * 1024
_SMALLEST_BITS, _LARGEST_BITS = 1024, 8192
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
_RSA_OID = bytes.fromhex("06092a864886f70d010101")
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_LONG_LENGTH = 0x80


class NotAKey(ValueError):
    """The text is no RSA key that can sign; the message never has any of it."""


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A private key: modulus, both exponents and the primes."""

    n: int
    e: int
    d: int = field(repr=False)
    p: int = field(repr=False)
    q: int = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Return the signature, as long as the modulus. Raises NotAKey where the key's parts do not fit together."""
        length = (self.n.bit_length() + 7) // 8
        digest = _SHA256_PREFIX + hashlib.sha256(message).digest()
        padded = b"\0\1" + b"\xff" * (length - len(digest) - 3) + b"\0" + digest
        value = int.from_bytes(padded, "big")
        try:
            by_p, by_q = pow(value, self.d % (self.p - 1), self.p), pow(value, self.d % (self.q - 1), self.q)
            signed = by_q + self.q * ((by_p - by_q) * pow(self.q, -1, self.p) % self.p)
        except (ValueError, ZeroDivisionError) as error:
            raise NotAKey("the parts of the private key do not fit together") from error
        if not 0 < signed < self.n or pow(signed, self.e, self.n) != value:
            raise NotAKey("the parts of the private key do not fit together")
        return signed.to_bytes(length, "big")


def parse_key(pem: str) -> RsaKey:
    """Return the key of an unencrypted PKCS #8 or PKCS #1 PEM. Raises NotAKey."""
    match = _PEM.search(pem) if len(pem) <= _LONGEST_PEM else None
    if match is None:
        raise NotAKey("there is no private key in PEM without a passphrase")
    try:
        der = base64.b64decode("".join(match[2].split()), validate=True)
        numbers = _numbers(der if match[1] else _unwrapped(der))
    except (binascii.Error, IndexError) as error:
        raise NotAKey("the private key is damaged") from error
    n, e, d, p, q = numbers[1:6]
    bits_right = _SMALLEST_BITS <= n.bit_length() <= _LARGEST_BITS
    if not bits_right or not all(1 < part < n for part in (e, d, p, q)):
        raise NotAKey(f"the private key is none of RSA with {_SMALLEST_BITS} to {_LARGEST_BITS} bits")
    return RsaKey(n, e, d, p, q)


def _unwrapped(der: bytes) -> bytes:
    """Return the PKCS #1 key within a PKCS #8 one."""
    tag, body, _ = _element(der)
    if tag != _SEQUENCE or _RSA_OID not in body[:32]:
        raise NotAKey("the private key is none of RSA")
    _, _, rest = _element(body)  # the version
    _, _, rest = _element(rest)  # the algorithm
    tag, inner, _ = _element(rest)
    if tag != _OCTETS:
        raise NotAKey("the private key is damaged")
    return inner


def _numbers(der: bytes) -> list[int]:
    """Return the integers of a sequence: version, n, e, d, p, q and more."""
    tag, body, _ = _element(der)
    numbers = []
    while tag == _SEQUENCE and body:
        kind, value, body = _element(body)
        if kind != _INTEGER:
            break
        numbers.append(int.from_bytes(value, "big"))
    if len(numbers) < len(("version", "n", "e", "d", "p", "q")):
        raise NotAKey("the private key is damaged")
    return numbers


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Return tag, content and what follows the first DER element. Raises IndexError, NotAKey."""
    tag, length, start = der[0], der[1], 2
    if length >= _LONG_LENGTH:
        size = length - _LONG_LENGTH
        length, start = int.from_bytes(der[2 : 2 + size], "big"), 2 + size
    if start + length > len(der):
        raise NotAKey("the private key is damaged")
    return tag, der[start : start + length], der[start + length :]

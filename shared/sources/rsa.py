"""Signs with RSA keys in PEM, as cloud accounts use them: PKCS #1 v1.5 with SHA-256 (RFC 8017, section 8.2.1)."""

from collections.abc import Callable
from dataclasses import dataclass, field

_SMALLEST_BITS, _LARGEST_BITS = 1024, 4096
_LONGEST_PEM = 4096  # a key of 4096 bits has 3272 characters


class InvalidKey(ValueError):
    """The text is not an RSA key that can sign; the message never contains any of it."""


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A private key; `sign` returns the signature of a message."""

    sign: Callable[[bytes], bytes] = field(repr=False)


def parse_key(pem: str) -> RsaKey:
    """Parse an unencrypted PKCS #8 or PKCS #1 PEM. Raises InvalidKey."""
    # These take 9 MB, which an agent that never signs saves.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    if len(pem) > _LONGEST_PEM:
        raise InvalidKey(f"the text is longer than the PEM of a {_LARGEST_BITS}-bit private key")
    try:
        key = load_pem_private_key(pem.encode(), password=None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, RSAPrivateKey) and _SMALLEST_BITS <= key.key_size <= _LARGEST_BITS:
            key = load_pem_private_key(pem.encode(), password=None)  # longer keys would take seconds to validate
    except TypeError:
        raise InvalidKey("the private key has a passphrase; use one without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidKey("there is no PEM private key, or it is damaged") from None
    if not isinstance(key, RSAPrivateKey) or not _SMALLEST_BITS <= key.key_size <= _LARGEST_BITS:
        raise InvalidKey(f"the private key is not an RSA key of {_SMALLEST_BITS} to {_LARGEST_BITS} bits")
    return RsaKey(lambda message: key.sign(message, PKCS1v15(), SHA256()))

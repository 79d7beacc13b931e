import base64
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from shared.sources.rsa import InvalidKey, parse_key

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PKCS8, PKCS1 = (
    KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL)
)


@pytest.mark.parametrize(
    "pem", [PKCS8, PKCS1, PKCS8.replace("\n", "\r\n"), PKCS8.replace("\n", " "), f"a label\n{PKCS8}OCI_API_KEY\n"]
)
@pytest.mark.parametrize("message", [b"", b"a message", bytes(10_000)])
def test_a_signature_verifies_only_for_its_message(pem: str, message: bytes) -> None:
    signature = parse_key(pem).sign(message)
    KEY.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(InvalidSignature):
        KEY.public_key().verify(signature, message + b"!", padding.PKCS1v15(), hashes.SHA256())


# Primes with 65537 as a valid exponent: generating keys of this length takes seconds.
NEAR_2048_BITS = (2**2048 - 1942289, 2**2048 - 1557)
MERSENNE = (2**2203 - 1, 2**2281 - 1)


def key_of(primes: tuple[int, int]) -> rsa.RSAPrivateKey:
    p, q = primes
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(65537, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key(
        unsafe_skip_rsa_key_validation=True
    )


def pkcs8(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@pytest.mark.parametrize(
    "make",
    [
        lambda: rsa.generate_private_key(public_exponent=65537, key_size=1024),  # noqa: S505 - as short as it may be
        lambda: rsa.generate_private_key(public_exponent=3, key_size=1536),  # noqa: S505 - as above
        lambda: key_of(NEAR_2048_BITS),
    ],
    ids=["1024-65537", "1536-3", "4096-65537"],
)
def test_signatures_of_keys_with_other_lengths_and_exponents_verify(make: Callable[[], rsa.RSAPrivateKey]) -> None:
    key = make()
    key.public_key().verify(parse_key(pkcs8(key)).sign(b"x"), b"x", padding.PKCS1v15(), hashes.SHA256())


def test_a_key_longer_than_any_cloud_makes_is_refused() -> None:
    with pytest.raises(InvalidKey, match="not an RSA key of 1024 to 4096 bits"):
        parse_key(pkcs8(key_of(MERSENNE)))


def pem_of(der: bytes, label: str = "PRIVATE KEY") -> str:
    return f"-----BEGIN {label}-----\n{base64.b64encode(der).decode()}\n-----END {label}-----\n"


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "no key",
        pem_of(b""),
        pem_of(b"\x30\x00"),
        pem_of(b"\x30\x84\xff\xff\xff\xff"),
        pem_of(b"\x30\x00", "RSA PRIVATE KEY"),
        pem_of(b"\x30\x12" + b"\x02\x01\x00" * 6, "RSA PRIVATE KEY"),
        PKCS8.replace("M", "N", 1),
        PKCS8.replace("PRIVATE", "ENCRYPTED PRIVATE"),
        KEY.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"p")
        ).decode(),
        "\udcff",
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode(),
    ],
)
def test_a_malformed_key_is_refused(pem: str) -> None:
    with pytest.raises(InvalidKey):
        parse_key(pem)


def test_a_key_whose_parts_do_not_fit_together_is_refused() -> None:
    der = base64.b64decode("".join(PKCS1.splitlines()[1:-1]))
    damaged = bytearray(der)
    damaged[-400] ^= 1  # within a prime
    with pytest.raises(InvalidKey):
        parse_key(pem_of(bytes(damaged), "RSA PRIVATE KEY"))


def test_a_key_file_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidKey, match="longer than"):
        parse_key(PKCS8 * 20)


@given(st.binary(max_size=200), st.sampled_from(["PRIVATE KEY", "RSA PRIVATE KEY"]))
def test_arbitrary_bytes_are_refused(der: bytes, label: str) -> None:
    with pytest.raises(InvalidKey):
        parse_key(pem_of(der, label))


def test_no_part_of_the_key_is_shown() -> None:
    assert repr(parse_key(PKCS8)) == "RsaKey()"

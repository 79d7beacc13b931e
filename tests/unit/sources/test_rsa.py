import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from shared.sources.rsa import NotAKey, parse_key

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PKCS8, PKCS1 = (
    KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL)
)


@pytest.mark.parametrize("pem", [PKCS8, PKCS1, PKCS8.replace("\n", "\r\n")])
@pytest.mark.parametrize("message", [b"", b"a message", bytes(10_000)])
def test_a_signature_is_the_one_that_another_implementation_makes(pem: str, message: bytes) -> None:
    assert parse_key(pem).sign(message) == KEY.sign(message, padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize("bits", [1024, 1536, 4096])
def test_other_lengths(bits: int) -> None:
    key = rsa.generate_private_key(public_exponent=3 if bits == 1536 else 65537, key_size=bits)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    assert parse_key(pem).sign(b"x") == key.sign(b"x", padding.PKCS1v15(), hashes.SHA256())


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
        PKCS8 * 20,
        PKCS8.replace("PRIVATE", "ENCRYPTED PRIVATE"),
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode(),
    ],
)
def test_what_is_no_key_is_refused(pem: str) -> None:
    if pem == PKCS8 * 20:
        assert len(pem) > 16 * 1024
    with pytest.raises(NotAKey):
        parse_key(pem)


def test_a_key_whose_parts_do_not_fit_together_signs_nothing() -> None:
    der = base64.b64decode("".join(PKCS1.splitlines()[1:-1]))
    damaged = bytearray(der)
    damaged[-400] ^= 1  # within a prime
    with pytest.raises(NotAKey):
        parse_key(pem_of(bytes(damaged), "RSA PRIVATE KEY")).sign(b"x")


@given(st.binary(max_size=200), st.sampled_from(["PRIVATE KEY", "RSA PRIVATE KEY"]))
def test_any_bytes_are_refused_or_sign_rightly(der: bytes, label: str) -> None:
    with pytest.raises(NotAKey):
        parse_key(pem_of(der, label)).sign(b"x")


def test_no_part_of_the_key_is_shown() -> None:
    key = parse_key(PKCS8)
    assert not any(str(part) in repr(key) for part in (key.d, key.p, key.q))

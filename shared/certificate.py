"""Until when a certificate is valid, read without a library for certificates."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0
_UTC_TIME = 0x17  # two digits for the year; GeneralizedTime has four
_VALIDITY = 3  # after serial number, algorithm and issuer
_LONG_FORM = 0x80


def not_after(pem: str) -> float:
    """Return the end of validity of the first certificate of a chain, in seconds since 1970. Raises ValueError."""
    start = pem.find(_BEGIN)
    end = pem.find(_END, start)
    if start < 0 or end < 0:
        raise ValueError("there is no certificate in this PEM text")
    try:
        return _end_of(ssl.PEM_cert_to_DER_cert(pem[start : end + len(_END)]))
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError("the certificate cannot be read; is it X.509 in DER?") from error


def _end_of(der: bytes) -> float:
    """Walk Certificate, TBSCertificate, Validity (RFC 5280, section 4.1)."""
    _, certificate = next(_elements(der))
    _, signed = next(_elements(certificate))
    fields = [content for tag, content in _elements(signed) if tag != _VERSION]
    tag, text = list(_elements(fields[_VALIDITY]))[1]
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode(), form).replace(tzinfo=UTC).timestamp()


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of the elements that stand side by side."""
    at = 0
    while at < len(der):
        tag, size, at = der[at], der[at + 1], at + 2
        if size & _LONG_FORM:
            count = size & ~_LONG_FORM
            size, at = int.from_bytes(der[at : at + count], "big"), at + count
        yield tag, der[at : at + size]
        at += size

"""Until when a certificate is valid."""


def not_after(pem: str) -> float:
    """Return the end of validity of the first certificate of a chain, in seconds since 1970. Raises ValueError."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - agents serve without TLS, and save 8 MB

    return load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()

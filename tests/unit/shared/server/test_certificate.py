"""The expiry that is read from a certificate equals the one that it was issued with."""

from datetime import UTC, datetime, timedelta

import pytest
import trustme

from shared.server.serve import not_after


@pytest.mark.parametrize("year", [2049, 2050, 2150])  # two digits for the year, and from 2050 on four
def test_expiry_years_with_two_and_four_digits_are_read(year: int) -> None:
    end = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    pem = trustme.CA().issue_cert("larder", not_after=end).cert_chain_pems[0].bytes()
    assert not_after(pem.decode()) == end.timestamp()


def test_the_expiry_of_a_chain_is_that_of_its_first_certificate() -> None:
    soon, late = (datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in (0, 9))
    authority = trustme.CA()
    chain = "".join(
        authority.issue_cert("larder", not_after=end).cert_chain_pems[0].bytes().decode() for end in (soon, late)
    )
    assert not_after(chain) == soon.timestamp()


@pytest.mark.parametrize(
    "text",
    ["", "no PEM", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"],
)
def test_a_file_that_is_not_a_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the library's
        not_after(text)

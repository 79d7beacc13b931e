"""Certificates of the rig."""

from cryptography import x509
from cryptography.x509.oid import NameOID

from rig.pki import Authority


def test_a_kubelet_gets_a_certificate_however_long_the_name_of_its_node_is() -> None:
    user = "system:node:" + "n" * 63
    certificate = x509.load_pem_x509_certificate(Authority().issue(user, ["system:nodes"]).public_pem)
    (found,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert found.value == user

"""Certificates for Stoker's own servers: made with an authority that signs nothing else and is forgotten at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(minutes=5)
"""Certificates begin in the past: clocks differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """PEM: the authority to trust, the certificate that it has signed, and the certificate's key."""

    authority: str
    certificate: str
    key: str


def issue(names: Sequence[str], *, now: datetime, valid: timedelta) -> ServingCertificate:
    """A certificate for a server of these DNS names. The authority's own key is kept nowhere: it can't sign another."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Each authority has another name: who looks for an issuer by name finds the right one in a bundle of several.
    issuer = _name(f"stoker-authority-{serial:x}"[:64])
    authority = (
        _builder(issuer, issuer, authority_key, serial, now, valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(names[0][:64]), issuer, key, x509.random_serial_number(), now, valid)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return ServingCertificate(
        authority=_pem(authority),
        certificate=_pem(certificate),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def read_all(pem: str) -> list[x509.Certificate]:
    """The certificates of a bundle; none where it is empty or not readable."""
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return []


def bundle(certificates: Sequence[x509.Certificate]) -> str:
    """Certificates as one text of PEM."""
    return "".join(map(_pem, certificates))


def serves(certificate: str, key: str, authorities: Sequence[x509.Certificate], names: Sequence[str]) -> bool:
    """Whether a certificate fits its key, is signed by one of the authorities, and is for all these names."""
    chain = read_all(certificate)
    if not chain or not any(_signed_by(chain[0], one) for one in authorities):
        return False
    try:
        private = serialization.load_pem_private_key(key.encode(), password=None)
        listed = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return private.public_key() == chain[0].public_key() and set(names) <= set(listed.get_values_for_type(x509.DNSName))


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: datetime,
    valid: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()

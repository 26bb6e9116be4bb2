"""Certificates for servers on loopback, made by an authority that lives as long as a test run."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues server certificates for localhost, and clients' contexts that trust them."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("stoker-test-ca")
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    def issue(self, folder: Path, common_name: str = "localhost") -> int:
        """Put tls.crt and tls.key into `folder`, each with one move, and return the certificate's serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        certificate = (
            _builder(_name(common_name), self.certificate.subject, key)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in {
            "tls.key": private,
            "tls.crt": certificate.public_bytes(serialization.Encoding.PEM),
        }.items():
            (folder / f".{file}").write_bytes(content)
            (folder / f".{file}").replace(folder / file)
        return certificate.serial_number

    def client_context(self) -> ssl.SSLContext:
        """Trusts this authority and nothing else."""
        return ssl.create_default_context(cadata=self.certificate.public_bytes(serialization.Encoding.PEM).decode())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
    )

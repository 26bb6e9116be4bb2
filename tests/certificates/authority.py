"""Certificates for servers on loopback."""

import ssl
from pathlib import Path

from cryptography import x509

from e2e.cluster.pki import CertificateAuthority, write_private


class Authority:
    """Issues server certificates for localhost, and clients' contexts that trust nothing else."""

    def __init__(self) -> None:
        self._authority = CertificateAuthority("stoker-test-ca")

    def issue(self, folder: Path) -> int:
        """Put tls.crt and tls.key into `folder`, each with one move, and return the certificate's serial number."""
        certificate, key = self._authority.issue_server(["localhost", "127.0.0.1"])
        folder.mkdir(parents=True, exist_ok=True)
        write_private(folder / "tls.key", key)
        write_private(folder / "tls.crt", certificate)
        return x509.load_pem_x509_certificate(certificate.encode()).serial_number

    @property
    def pem(self) -> str:
        """The authority's certificate, for clients that are no Python."""
        return self._authority.pem

    def client_context(self) -> ssl.SSLContext:
        """A context for clients of the certificates' servers."""
        return ssl.create_default_context(cadata=self._authority.pem)

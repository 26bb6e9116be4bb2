"""The server's certificate, renewed under a running server without dropping a connection."""

import asyncio
import logging
import ssl
from datetime import datetime
from pathlib import Path

from cryptography import x509

logger = logging.getLogger(__name__)

CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"
"""The names that a Secret of type kubernetes.io/tls gives its files."""


class Certificate:
    """A TLS context that follows the certificate files in a folder.

    New files are loaded into the context that is in use: open connections keep what they agreed on, new ones get the
    new certificate. Files that don't load leave the context as it was.

    `client_ca`: a file of PEM authorities; where given, the handshake fails for clients without a certificate of
    theirs. Raises OSError if it can't be read, ssl.SSLError among them.
    """

    def __init__(self, folder: Path, *, client_ca: Path | None = None) -> None:
        self._folder = folder
        self._loaded: tuple[object, ...] | None = None
        self._refused: tuple[object, ...] | None = None
        self.context = server_context()
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        self.expires: datetime | None = None
        """When the certificate in use ends."""
        self.problem: str | None = f"{folder / CERTIFICATE_FILE} is not loaded yet"
        """Why there is no certificate to serve with, or None once there was one."""

    def refresh(self) -> bool:
        """Load the files if they changed since the last time; whether they were loaded. Never raises."""
        # A Secret's volume is replaced by moving one symbolic link: both files are looked up in the same, resolved
        # folder.
        certificate = (self._folder / CERTIFICATE_FILE).resolve()
        key = (self._folder / KEY_FILE).resolve()
        try:
            seen = (_stamp(certificate), _stamp(key))
            if seen in {self._loaded, self._refused}:
                return False
            # A pair that doesn't match would leave the running context without a key: try it on another one first.
            server_context().load_cert_chain(certificate, key)
            self.context.load_cert_chain(certificate, key)
            self.expires = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
        except (OSError, ValueError) as error:
            self._complain(f"{certificate}, {key}: {_reason(error)}")
            if isinstance(error, ssl.SSLError):
                self._refused = seen
            return False
        if self._loaded is not None:
            logger.info("The certificate in %s was replaced and is in use.", self._folder)
        self._loaded, self._refused, self.problem = seen, None, None
        return True

    async def follow(self, interval: float) -> None:
        """Look at the files every `interval` seconds, for ever."""
        while True:
            await asyncio.sleep(interval)
            self.refresh()

    async def available(self, interval: float) -> None:
        """Wait until a certificate is loaded, looking every `interval` seconds."""
        self.refresh()
        while self.problem is not None:
            await asyncio.sleep(interval)
            self.refresh()

    def _complain(self, problem: str) -> None:
        if self._loaded is not None:
            logger.error("The new certificate can't be loaded, the old one stays in use: %s", problem)
        elif problem != self.problem:
            logger.warning("Waiting for a certificate: %s", problem)
            self.problem = problem


def server_context() -> ssl.SSLContext:
    """TLS 1.2 or newer, with the ciphers of Python's choice."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _stamp(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return str(file), status.st_ino, status.st_mtime_ns, status.st_size


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)

"""The webhook's certificate between its Secret and its process: what the kubelet does where nodes are simulated."""

import base64
import ssl
from pathlib import Path

from cryptography import x509

from e2e.cluster.provider import Cluster
from e2e.operator import NAMESPACE

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/stoker-admission-tls"


def mount(cluster: Cluster, folder: Path) -> int:
    """Bring the folder to the Secret, as the kubelet does. Returns the certificate's serial number."""
    data = cluster.api("GET", SECRET)["data"]
    for name in ("tls.key", "tls.crt"):
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_bytes(base64.b64decode(data[name]))
        unfinished.replace(folder / name)
    return x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"])).serial_number


def serves(port: int, serial: int) -> bool:
    """Whether the admission process shows this certificate to a new connection."""
    shown = ssl.get_server_certificate(("127.0.0.1", port), timeout=30)
    return x509.load_pem_x509_certificate(shown.encode()).serial_number == serial

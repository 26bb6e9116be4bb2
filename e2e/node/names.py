"""The cluster's DNS on a real node: names of Services and of the pods behind headless ones.

`python -m e2e.node.names KUBECONFIG` answers on the node's address, inside its namespaces. It asks the API server anew
for each name, so that nothing is watched and nothing gets stale.
"""

import sys
import threading
from pathlib import Path

from dnslib import QTYPE, RCODE, RR, A
from dnslib.server import BaseResolver, DNSHandler, DNSLogger, DNSRecord, DNSServer

from e2e.cluster.api import ApiClient, ApiError
from e2e.node.settings import CLUSTER_DOMAIN, NODE_ADDRESS

_TTL = 5
_PORT = 53


class Services(BaseResolver):  # type: ignore[misc]  # dnslib has no types
    """Resolves SERVICE.NAMESPACE.svc.DOMAIN and HOSTNAME.SERVICE.NAMESPACE.svc.DOMAIN."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def resolve(self, request: DNSRecord, handler: DNSHandler) -> DNSRecord:
        """Answer a query: no such name, no such record of a name that exists, or addresses (IPv4)."""
        reply = request.reply()
        found = self.addresses(str(request.q.qname).rstrip(".").lower())
        if found is None:
            reply.header.rcode = RCODE.NXDOMAIN
        elif request.q.qtype in {QTYPE.A, QTYPE.ANY}:
            for address in found:
                reply.add_answer(RR(request.q.qname, QTYPE.A, ttl=_TTL, rdata=A(address)))
        return reply

    def addresses(self, name: str) -> list[str] | None:
        """The addresses of a name; None where there is none of that name."""
        suffix = f".svc.{CLUSTER_DOMAIN}"
        parts = name.removesuffix(suffix).split(".")
        if not name.endswith(suffix) or len(parts) not in {2, 3}:
            return None
        hostname, (service, namespace) = ("".join(parts[:-2]), parts[-2:])
        try:
            address = self._api.get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"].get("clusterIP")
        except ApiError:
            return None
        if not hostname and address != "None":
            return [address] if address else []
        return self._endpoints(namespace, service, hostname) or None

    def _endpoints(self, namespace: str, service: str, hostname: str) -> list[str]:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        slices = self._api.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
        endpoints = [endpoint for one in slices for endpoint in one.get("endpoints") or []]
        return [
            address
            for endpoint in endpoints
            if hostname in {"", endpoint.get("hostname")} and endpoint.get("conditions", {}).get("ready", True)
            for address in endpoint["addresses"]
        ]


def main() -> None:
    """Answer over UDP and TCP until killed."""
    resolver = Services(ApiClient(Path(sys.argv[1])))
    quiet = DNSLogger("-request,-reply,-truncated,-data")
    servers = [DNSServer(resolver, address=NODE_ADDRESS, port=_PORT, tcp=tcp, logger=quiet) for tcp in (False, True)]
    for server in servers:
        server.start_thread()
    threading.Event().wait()


if __name__ == "__main__":
    main()

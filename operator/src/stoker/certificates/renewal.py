"""Issues and renews the webhook's serving certificate, and writes its authorities to the webhook's caBundle.

Used by the certificates process. The whole state is in one Secret, so that a restart between any two steps is harmless:

    tls.crt, tls.key      the serving certificate of the admission pods
    ca.crt                the trusted authorities: of tls.crt, of next.crt, and of earlier unexpired certificates
    next.crt, next.key    the next certificate, until all API servers trust its authority

Each authority signs one certificate, and the authority's key is discarded. A renewal has two steps. First the new
authority is added to the caBundle beside the old one. After SETTLE, when every API server has seen the change, the new
certificate replaces the old one. Pods that still serve with the old certificate are trusted until it expires.
"""

import base64
import binascii
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509

from stoker.adapters.certificates import BACKDATED, bundle, issue, read_all, serves
from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import ConflictError, KubernetesApi, Object, Resource

logger = logging.getLogger(__name__)

SECRETS = Resource("", "v1", "secrets")
WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
SETTLE = timedelta(minutes=5)
"""Time from the new authority in the caBundle to the first use of its certificate. Chosen well above the time in which
API servers receive the change by their watch.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateLocation:
    """Where the certificate is kept and whom it is for.

    secret: the Secret's name in `namespace`. webhook: the name of the ValidatingWebhookConfiguration. names: the DNS
    names of the certificate. valid: the validity of a new certificate; it is renewed when a third of that is left.
    """

    namespace: str
    secret: str
    webhook: str
    names: tuple[str, ...]
    valid: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The content of the Secret as PEM texts. A missing entry is empty."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""
    next_certificate: str = ""
    next_key: str = ""

    @classmethod
    def of(cls, secret: Object) -> "Kept":
        """Read a Secret as JSON. An entry that can't be decoded counts as missing."""
        data = secret.get("data") or {}
        return cls(**{field: _decoded(data, name) for field, name in _KEYS.items()})

    def data(self) -> Mapping[str, str]:
        """The Secret's data in base64, without empty entries."""
        texts = {name: getattr(self, field) for field, name in _KEYS.items()}
        return {name: _encoded(text) for name, text in texts.items() if text}


_KEYS: Mapping[str, str] = {
    "certificate": "tls.crt",
    "key": "tls.key",
    "authorities": "ca.crt",
    "next_certificate": "next.crt",
    "next_key": "next.key",
}


def renewed(kept: Kept, place: CertificateLocation, now: datetime) -> Kept:
    """The content that the Secret should have `now`: `kept` itself, or the next step of a renewal. A missing or
    unusable certificate is replaced at once.
    """
    trusted = [one for one in read_all(kept.authorities) if one.not_valid_after_utc > now]
    if not _holds(kept.certificate, kept.key, trusted, place.names, now):
        made = issue(place.names, now=now, valid=place.valid)
        return Kept(
            certificate=made.certificate, key=made.key, authorities=bundle([*read_all(made.authority), *trusted])
        )
    if _holds(kept.next_certificate, kept.next_key, trusted, place.names, now):
        since = read_all(kept.next_certificate)[0].not_valid_before_utc
        if now - since < SETTLE + BACKDATED:
            return kept
        return Kept(certificate=kept.next_certificate, key=kept.next_key, authorities=bundle(trusted))
    current = read_all(kept.certificate)[0]
    if current.not_valid_after_utc - now > place.valid / 3:
        return replace(kept, authorities=bundle(trusted), next_certificate="", next_key="")
    made = issue(place.names, now=now, valid=place.valid)
    return replace(
        kept,
        authorities=bundle([*read_all(made.authority), *trusted]),
        next_certificate=made.certificate,
        next_key=made.key,
    )


def _holds(
    certificate: str, key: str, trusted: Sequence[x509.Certificate], names: Sequence[str], now: datetime
) -> bool:
    return serves(certificate, key, trusted, names) and read_all(certificate)[0].not_valid_after_utc > now


class CertificateKeeper:
    """Checks the Secret and the webhook configuration and corrects both."""

    def __init__(self, api: KubernetesApi, place: CertificateLocation, clock: Clock) -> None:
        self._api = api
        self._place = place
        self._clock = clock
        self.expires: datetime | None = None
        """When the certificate in the Secret expires, as of the last check."""

    async def look(self) -> None:
        """Check once, and make the step of a renewal that is due. Raises ApiError."""
        place = self._place
        secret = await self._api.get(SECRETS, place.namespace, place.secret)
        configuration = await self._api.get(WEBHOOKS, None, place.webhook)
        before = Kept.of(secret)
        after = renewed(before, place, self._clock.now())
        if after.certificate == before.next_certificate and not _trusts(configuration, before.authorities):
            # The new certificate is not served before the caBundle has its authority, even if its time has come.
            after = before
        if after != before:
            # The body has the resource version that was read, so that only one of two parallel checks writes.
            body = {**secret, "data": dict(after.data())}
            try:
                await self._api.replace(SECRETS, place.namespace, place.secret, body)
            except ConflictError:
                logger.info("Secret %s was changed in the meantime: reading it again.", place.secret)
                return
            _log_changes(before, after)
        self.expires = read_all(after.certificate)[0].not_valid_after_utc
        if not _trusts(configuration, after.authorities):
            await self._trust(configuration, after.authorities)

    async def _trust(self, configuration: Object, authorities: str) -> None:
        """Write these authorities into the caBundle of each webhook."""
        # A merge patch replaces the whole list. So the list is sent as read, with the resource version that was read as
        # a precondition.
        encoded = _encoded(authorities)
        webhooks = configuration["webhooks"]
        changed = [{**one, "clientConfig": {**one["clientConfig"], "caBundle": encoded}} for one in webhooks]
        body = {
            "metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]},
            "webhooks": changed,
        }
        await self._api.patch(WEBHOOKS, None, self._place.webhook, body)
        logger.info("The API server now trusts %d authorities for %s.", len(read_all(authorities)), self._place.webhook)


def _trusts(configuration: Object, authorities: str) -> bool:
    encoded = _encoded(authorities)
    return all(one["clientConfig"].get("caBundle") == encoded for one in configuration.get("webhooks") or ())


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _log_changes(before: Kept, after: Kept) -> None:
    ends = read_all(after.certificate)[0].not_valid_after_utc
    if after.certificate != before.certificate:
        logger.info("A new certificate is served, valid until %s.", ends)
    elif after.next_certificate:
        logger.info("The certificate ends at %s: its successor is made and will be served once it is trusted.", ends)


def _decoded(data: Mapping[str, str], name: str) -> str:
    try:
        return base64.b64decode(data.get(name, ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""

"""What the Deployments of an installation say of it: which parts there are, and the options that they run with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from stoker.adapters.kubernetes.client import Object
from stoker.api.duration import parse_duration
from stoker.lint.kinds.pod import listed, mapping
from stoker.policy.checks import ClusterSettings

VERSION_LABEL = "app.kubernetes.io/version"
CERTIFICATE_FOLDER = "certificate-folder"
"""The option of `stoker run admission` that names the folder of its certificate."""


class Role(StrEnum):
    """A part of the operator: the argument of `stoker run`."""

    CONTROLLER = "controller"
    ADMISSION = "admission"
    CERTIFICATES = "certificates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One Deployment of the operator. `options` are those of its command line, in their order; `secrets` are the names
    of the Secrets by the folder where they are mounted.
    """

    role: Role
    name: str
    service_account: str
    replicas: int
    ready: int
    version: str
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str, default: str = "") -> str:
        """The value of an option, the last one where it is repeated."""
        return self.options.get(name, (default,))[-1]

    @property
    def certificate_secret(self) -> str | None:
        """The Secret with the certificate that it serves."""
        return self.secrets.get(self.option(CERTIFICATE_FOLDER))

    @property
    def settings(self) -> ClusterSettings:
        """What policies must fit."""
        known = ClusterSettings()
        return ClusterSettings(
            scrape_interval=_duration(self.option("scrape-interval"), known.scrape_interval),
            minimum_warning_grace=_duration(self.option("minimum-warning-grace"), known.minimum_warning_grace),
        )


def components(deployments: Iterable[Object]) -> dict[Role, Component]:
    """The parts of the operator among these Deployments, whatever their names and labels: by what they run."""
    found = {}
    for deployment in deployments:
        if (one := _component(deployment)) is not None:
            found[one.role] = one
    return found


def _component(deployment: Object) -> Component | None:
    metadata, spec, status = (mapping(deployment.get(key)) for key in ("metadata", "spec", "status"))
    template = mapping(spec.get("template"))
    pod = mapping(template.get("spec"))
    for container in map(mapping, listed(pod.get("containers"))):
        words = [str(word) for word in (*listed(container.get("command")), *listed(container.get("args")))]
        role = _role(words)
        if role is None:
            continue
        return Component(
            role=role,
            name=str(metadata.get("name", "")),
            service_account=str(pod.get("serviceAccountName") or "default"),
            replicas=_whole(spec.get("replicas"), 1),
            ready=_whole(status.get("readyReplicas"), 0),
            version=str(mapping(metadata.get("labels")).get(VERSION_LABEL, "")),
            options=_options(words),
            secrets=_secrets(pod, container),
        )
    return None


def _role(words: list[str]) -> Role | None:
    if "run" not in words[:-1]:
        return None
    following = words[words.index("run") + 1]
    return next((role for role in Role if role == following), None)


def _options(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Options as the chart writes them, `--name=value`; a flag has the value ""."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = (*found.get(name, ()), value)
    return found


def _secrets(pod: Mapping[str, object], container: Mapping[str, object]) -> dict[str, str]:
    volumes = {
        str(volume.get("name")): str(mapping(volume.get("secret")).get("secretName", ""))
        for volume in map(mapping, listed(pod.get("volumes")))
        if volume.get("secret")
    }
    mounts = map(mapping, listed(container.get("volumeMounts")))
    return {
        str(mount.get("mountPath")): volumes[str(mount.get("name"))]
        for mount in mounts
        if str(mount.get("name")) in volumes
    }


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _duration(text: str, default: timedelta) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError:
        return default


__all__ = ["CERTIFICATE_FOLDER", "Component", "Role", "components"]

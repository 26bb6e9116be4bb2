"""`--policy`: the policies that `stoker lint` judges by, resolved for each namespace as the cluster would."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.cli.manifests import InputError, Manifest, Template, read
from stoker.cli.schema import is_ours, violations
from stoker.models.policy import BASE, BUILT_IN, NAMESPACE_LABEL, EffectivePolicy, UtilizationPolicy, resolve
from stoker.models.policy import KIND as POLICY_KIND

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """UtilizationPolicies, and the labels of the namespaces that came with them.

    One policy alone is in force everywhere, whatever it selects: it was asked for. Of several, each namespace has the
    one that would count for it in the cluster.
    """

    policies: tuple[UtilizationPolicy, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def effective(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace; empty stands for the one called default."""
        if not self.policies:
            return BUILT_IN
        namespace = namespace or DEFAULT_NAMESPACE
        return resolve(self._in_force, namespace, self.labels.get(namespace, {}))

    def unsure(self, namespace: str) -> bool:
        """Whether some policy selects by labels of this namespace, which are not known."""
        namespace = namespace or DEFAULT_NAMESPACE
        selectors = [one.spec.namespace_selector for one in self._in_force]
        return namespace not in self.labels and any(
            selector is not None
            and (set(selector.match_labels) | {requirement.key for requirement in selector.match_expressions})
            - {NAMESPACE_LABEL}
            for selector in selectors
        )

    @property
    def _in_force(self) -> tuple[UtilizationPolicy, ...]:
        if len(self.policies) != 1:
            return self.policies
        (policy,) = self.policies
        return (policy.model_copy(update={"metadata": policy.metadata.model_copy(update={"name": BASE})}),)


def load(paths: Iterable[str]) -> Policies:
    """The policies of some files. Raises InputError for what can't be read, an invalid policy, or none at all."""
    paths = list(paths)
    policies: dict[str, UtilizationPolicy] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for item in read(paths):
        if isinstance(item, InputError):
            raise item
        if isinstance(item, Template):
            continue
        if is_ours(item, POLICY_KIND):
            policy = _policy(item)
            if policy.name in policies:
                raise InputError(item.path, f'a second UtilizationPolicy "{policy.name}"', line=item.line)
            policies[policy.name] = policy
        elif item.kind == "Namespace":
            metadata = item.value.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            labels[str(metadata.get("name"))] = _texts(metadata.get("labels"))
    if paths and not policies:
        raise InputError(", ".join(paths), "holds no UtilizationPolicy")
    return Policies(policies=tuple(policies.values()), labels=labels)


def _policy(manifest: Manifest) -> UtilizationPolicy:
    for path, message in violations(UtilizationPolicy, manifest.value):
        raise InputError(manifest.path, f"{path}: {message}", line=manifest.locate(path).line)
    return UtilizationPolicy.model_validate(manifest.value)


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


__all__ = ["Policies", "load"]

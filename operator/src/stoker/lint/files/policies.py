"""`--policy`: the policies that `stoker lint` judges by, resolved for each namespace as the cluster would."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stoker.api.meta import LabelSelector
from stoker.api.names import POLICY_KIND
from stoker.api.policy import BASE, NAMESPACE_LABEL, UtilizationPolicy
from stoker.api.schema import Violation
from stoker.catalogue import admission_rules
from stoker.lint.files.manifests import InputError, Manifest, ManifestText, read
from stoker.lint.files.objects import is_ours, metadata, object_name
from stoker.lint.kinds.custom_resource import violations
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.policy.resolution import resolve

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFiles:
    """UtilizationPolicies, and the labels of the namespaces that came with them.

    One policy alone is in force everywhere, whatever it selects: it was asked for. Of several, each namespace has the
    one that would count for it in the cluster.
    """

    policies: tuple[UtilizationPolicy, ...] = ()
    remarks: tuple[str, ...] = ()
    """What in them does not do what it looks like."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def effective(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace; empty stands for the one called default."""
        if not self.policies:
            return BUILT_IN
        namespace = namespace or DEFAULT_NAMESPACE
        return resolve(self._in_force, namespace, self.labels.get(namespace, {}))

    def unsure(self, namespaces: Iterable[str]) -> Iterator[str]:
        """What can't be said of some namespaces: which policies select them by labels that are not known."""
        doubtful = [
            policy.name
            for policy in self.policies
            if any(_keys(selector) - {NAMESPACE_LABEL} for selector in self._asking(policy))
        ]
        for namespace in dict.fromkeys(namespace or DEFAULT_NAMESPACE for namespace in namespaces):
            if doubtful and namespace not in self.labels:
                names = ", ".join(doubtful)
                yield (
                    f'the labels of namespace "{namespace}" are unknown: it is assumed not to have those that {names} '
                    "selects (add the Namespace to the file of policies)"
                )

    def _asking(self, policy: UtilizationPolicy) -> Iterator[LabelSelector]:
        """A policy's selectors of namespaces that decide here; the own one of a policy alone does not."""
        spec = policy.spec
        selectors = [spec.namespace_selector] if len(self.policies) > 1 else []
        selectors += [one.namespace_selector for one in spec.exemptions or ()]
        selectors += [spec.trusted_job_types.namespace_selector] if spec.trusted_job_types is not None else []
        yield from (selector for selector in selectors if selector is not None)

    @property
    def _in_force(self) -> tuple[UtilizationPolicy, ...]:
        if len(self.policies) != 1:
            return self.policies
        (policy,) = self.policies
        return (policy.model_copy(update={"metadata": policy.metadata.model_copy(update={"name": BASE})}),)


def load(paths: Iterable[str], now: datetime) -> PolicyFiles:
    """The policies of some files; without files there are none. Raises InputError for what can't be read, files without
    a policy, or a policy that the cluster would refuse.
    """
    paths = list(paths)
    if not paths:
        return PolicyFiles()
    policies: dict[str, UtilizationPolicy] = {}
    sources: dict[str, Manifest] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for file in read(paths):
        if isinstance(file, InputError):
            raise file
        for manifest in () if isinstance(file, ManifestText) else file.manifests:
            if is_ours(manifest, POLICY_KIND):
                policy = _policy(manifest)
                if policy.name in policies:
                    raise InputError(manifest.path, f'a second UtilizationPolicy "{policy.name}"', line=manifest.line)
                policies[policy.name], sources[policy.name] = policy, manifest
            elif manifest.kind == "Namespace":
                labels[object_name(manifest)] = _texts(metadata(manifest).get("labels"))
    if not policies:
        raise InputError(", ".join(paths), "contains no UtilizationPolicy")
    from stoker.policy.checks import ClusterSettings, review_policy  # noqa: PLC0415 - `stoker lint` alone needs none of it

    unknown_cluster = ClusterSettings(scrape_interval=timedelta(0), minimum_warning_grace=timedelta(0))
    remarks: list[str] = []
    for name, policy in policies.items():
        review = review_policy(policy, policies.values(), admission_rules(), unknown_cluster, now)
        if review.contradictions:
            raise _refusal(sources[name], review.contradictions)
        remarks += [f"{sources[name].path}: {remark}" for remark in review.remarks]
    return PolicyFiles(policies=tuple(policies.values()), remarks=tuple(remarks), labels=labels)


def _keys(selector: LabelSelector) -> set[str]:
    return {*selector.match_labels, *(requirement.key for requirement in selector.match_expressions)}


def _policy(manifest: Manifest) -> UtilizationPolicy:
    if wrong := violations(UtilizationPolicy, manifest.value):
        raise _refusal(manifest, wrong)
    return UtilizationPolicy.model_validate(manifest.value)


def _refusal(manifest: Manifest, wrong: Sequence[Violation]) -> InputError:
    """All that is wrong with a policy, each fault in a line of its own with its place."""
    first, *others = [InputError(manifest.path, str(one), line=manifest.locate(one.field_path).line) for one in wrong]
    return InputError(manifest.path, "\n".join([first.message, *map(str, others)]), line=first.line)


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


__all__ = ["PolicyFiles", "load"]

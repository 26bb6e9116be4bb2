"""How the policies of a cluster add up: which one is in force in a namespace, and what it leaves to the one below.

The cluster's processes, `stoker lint`, `stoker explain` and `stoker replay` all resolve policies by this module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

from pydantic import BaseModel

from stoker.api.image import ImagePattern
from stoker.api.meta import LabelSelector, matches
from stoker.api.policy import (
    BASE,
    NAMESPACE_LABEL,
    DigestTime,
    ImageFamily,
    MassIdleBrake,
    NotificationTemplates,
    UtilizationPolicy,
    UtilizationPolicySpec,
)
from stoker.policy.effective import (
    BUILT_IN_REVISION,
    EffectiveAnalysis,
    EffectiveBrake,
    EffectiveDigest,
    EffectiveNotification,
    EffectivePolicy,
    EffectiveReclaim,
    EffectiveTemplates,
    EffectiveThresholds,
    EffectiveWorkloads,
    PolicyRevision,
    concrete,
)


def rank(policy: UtilizationPolicy) -> tuple[int, str]:
    """Sorts overrides: of those that select a namespace the first counts, by priority, of equals by name."""
    return -(policy.spec.priority or 0), policy.name


def winner(policies: Iterable[UtilizationPolicy], labels: Mapping[str, str]) -> UtilizationPolicy | None:
    """The one override that counts in a namespace with these labels."""
    selected = [one for one in policies if one.name != BASE and matches(one.spec.namespace_selector, labels)]
    return min(selected, key=rank, default=None)


def resolve(
    policies: Iterable[UtilizationPolicy], namespace: str, namespace_labels: Mapping[str, str]
) -> EffectivePolicy:
    """What holds in a namespace: the winning override, laid over the policy `default`, laid over the built-in defaults.

    The layering goes field by field, into nested objects and into the entries of `rules`; lists and selectors are
    replaced whole.
    """
    labels = {NAMESPACE_LABEL: namespace, **namespace_labels}
    policies = tuple(policies)
    override = winner(policies, labels)
    return combined([one for one in policies if one.name == BASE] + ([override] if override else []), labels)


def combined(layers: Sequence[UtilizationPolicy], labels: Mapping[str, str]) -> EffectivePolicy:
    """The policies laid one over the other, the base first, over the built-in defaults, for a namespace with these
    labels.
    """
    spec = reduce(_laid_over, (one.spec for one in layers), UtilizationPolicySpec())
    trusted = spec.trusted_job_types.namespace_selector if spec.trusted_job_types is not None else None
    return EffectivePolicy(
        rules=spec.rules or {},
        exemptions=tuple(
            one
            for one in spec.exemptions or ()
            if one.namespace_selector is None or matches(one.namespace_selector, labels)
        ),
        suppressible=spec.suppressible,
        trusted_job_types=trusted is None or matches(trusted, labels),
        images=tuple(_pattern(one) for one in spec.images or ()),
        thresholds=EffectiveThresholds(**set_fields(spec.thresholds)),
        reclaim=EffectiveReclaim(**set_fields(spec.reclaim)),
        notification=EffectiveNotification(**set_fields(spec.notification)),
        analysis=EffectiveAnalysis(**set_fields(spec.analysis)),
        workloads=EffectiveWorkloads(**set_fields(spec.workloads)),
        sources=tuple(one.name for one in layers),
        revisions=tuple(PolicyRevision(name=one.name, generation=one.metadata.generation) for one in layers)
        or (BUILT_IN_REVISION,),
    )


NESTED: Mapping[type[BaseModel], Callable[..., Any]] = {
    DigestTime: EffectiveDigest,
    MassIdleBrake: EffectiveBrake,
    NotificationTemplates: EffectiveTemplates,
}
"""What a group of settings within a group becomes."""


def set_fields(model: BaseModel | None) -> dict[str, Any]:
    """The fields that are set, in the types of the effective policy."""
    fields = {} if model is None else {name: getattr(model, name) for name in type(model).model_fields}
    return {
        name: NESTED[type(value)](**set_fields(value)) if type(value) in NESTED else concrete(name, value)
        for name, value in fields.items()
        if value is not None
    }


Model = TypeVar("Model", bound=BaseModel)


def _laid_over(base: Model, over: Model) -> Model:
    """`over` on `base`, field by field; what `over` leaves out or sets to null is taken from `base`."""
    update: dict[str, Any] = {}
    for name in over.model_fields_set:
        upper, lower = getattr(over, name), getattr(base, name)
        if upper is not None:
            update[name] = _merged(lower, upper)
    return base.model_copy(update=update)


def _merged(lower: Any, upper: Any) -> Any:
    if isinstance(upper, LabelSelector) or lower is None:
        return upper
    if isinstance(upper, BaseModel):
        return _laid_over(lower, upper)
    if isinstance(upper, dict):
        return {**lower, **{key: _merged(lower.get(key), value) for key, value in upper.items()}}
    return upper


def _pattern(family: ImageFamily) -> ImagePattern:
    """A family as images are compared with it."""
    return ImagePattern(
        name=family.name,
        kind=family.kind,
        repositories=family.repositories,
        tags=family.tags,
        without_tags=family.without_tags,
        framework=family.framework,
        gpu_variant=family.gpu_variant,
        entrypoint=family.entrypoint,
    )


__all__ = ["combined", "rank", "resolve", "set_fields", "winner"]

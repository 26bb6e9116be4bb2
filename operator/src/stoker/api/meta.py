"""The parts that all kinds share: metadata, label selectors, conditions, times."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from stoker.api.schema import A_TIME, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, ApiModel, Violation
from stoker.api.structural import is_time
from stoker.findings.finding import rfc3339


def _written_time(value: object) -> object:
    """A time as the API writes it; pydantic takes "8" for eight seconds after 1970."""
    if isinstance(value, str) and not is_time(value):
        raise PydanticCustomError("datetime_parsing", A_TIME)
    if isinstance(value, int | float):
        raise PydanticCustomError("datetime_type", A_TIME)
    return value


Time = Annotated[
    AwareDatetime,
    BeforeValidator(_written_time),
    PlainSerializer(rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""RFC 3339; written in UTC with whole seconds."""

Integer = Annotated[int, Strict()]
Boolean = Annotated[bool, Strict()]


class ObjectMeta(ApiModel):
    """What Stoker reads of an object's metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Annotated[dict[str, str], Field(default_factory=dict)]
    annotations: Annotated[dict[str, str], Field(default_factory=dict)]
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[dict[str, Any], ...] = ()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    managed_fields: tuple[dict[str, Any], ...] = ()
    self_link: str = ""


class ConditionStatus(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One aspect of the object's state, in the form that `kubectl wait --for=condition=...` reads."""

    type: str
    """Name of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    observed_generation: int | None = Field(default=None, json_schema_extra={"format": "int64"})
    """Generation of the object that the condition was computed from."""
    last_transition_time: Time
    """When the status last changed from one value to another."""
    reason: str
    """Why the condition has this status, in one CamelCase word."""
    message: str = ""
    """The reason in one sentence, for people."""


Conditions = Annotated[tuple[Condition, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["type"]})]


class SelectorOperator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(ApiModel):
    """One requirement on one label."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """The label that the requirement is about."""
    operator: SelectorOperator
    """In and NotIn compare the label with values; Exists and DoesNotExist look only at the key."""
    values: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(default=(), max_length=64)]
    """What In and NotIn compare the label with; empty for Exists and DoesNotExist."""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement. NotIn holds where the label is absent, as everywhere in Kubernetes."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(ApiModel):
    """Selects by labels, as everywhere in Kubernetes: all requirements must hold, and an empty selector selects
    everything.
    """

    model_config = ConfigDict(json_schema_extra={MAP_TYPE: "atomic"})

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(default_factory=dict, max_length=64)]
    """Labels that must have exactly these values."""
    match_expressions: Annotated[tuple[SelectorRequirement, ...], Field(max_length=64)] = ()
    """Further requirements on labels."""


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects something with these labels. No selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement.holds(labels) for requirement in selector.match_expressions
    )


EVERYTHING = LabelSelector.model_construct(match_labels={})
"""The empty selector; not validated, so that importing this module builds no schema."""

LABEL_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
"""What a label may be called and be set to (k8s.io/apimachinery, pkg/util/validation): nothing else ever matches."""


def selector_faults(selector: LabelSelector) -> Iterator[Violation]:
    """What the API server would refuse in a selector of its own kinds; the paths are relative to the selector."""
    for key, value in selector.match_labels.items():
        if not LABEL_KEY.fullmatch(key):
            yield Violation(field_path="matchLabels", message=f"{key!r}: must be a label's name, such as team")
        if not LABEL_VALUE.fullmatch(value):
            yield Violation(field_path=f"matchLabels[{key}]", message=f"{value!r}: {_VALUE}")
    for index, requirement in enumerate(selector.match_expressions):
        path = f"matchExpressions[{index}]"
        if not LABEL_KEY.fullmatch(requirement.key):
            message = f"{requirement.key!r}: must be a label's name, such as team"
            yield Violation(field_path=f"{path}.key", message=message)
        compares = requirement.operator in {SelectorOperator.IN, SelectorOperator.NOT_IN}
        if compares != bool(requirement.values):
            allowed = "at least one value is required" if compares else "must be empty"
            yield Violation(field_path=f"{path}.values", message=f"{allowed} with operator {requirement.operator}")
        for value in requirement.values:
            if not LABEL_VALUE.fullmatch(value):
                yield Violation(field_path=f"{path}.values", message=f"{value!r}: {_VALUE}")


_VALUE = "must be a label's value: at most 63 letters, digits, -, _ and ., the first and last a letter or digit"


@dataclass(slots=True)
class _Demand:
    """What is demanded of one label; `allowed` None: any value."""

    allowed: frozenset[str] | None = None
    forbidden: set[str] = field(default_factory=set)
    present: bool = False
    absent: bool = False

    def allow_only(self, values: frozenset[str]) -> None:
        self.allowed = values if self.allowed is None else self.allowed & values
        self.present = True

    @property
    def can_be_met(self) -> bool:
        if self.present and self.absent:
            return False
        return self.allowed is None or bool(self.allowed - self.forbidden)


def contradiction(*selectors: LabelSelector) -> str | None:
    """The first label of which the selectors together demand what no object can meet; None where one could."""
    demands: defaultdict[str, _Demand] = defaultdict(_Demand)
    for selector in selectors:
        for key, value in selector.match_labels.items():
            demands[key].allow_only(frozenset({value}))
        for requirement in selector.match_expressions:
            demand = demands[requirement.key]
            match requirement.operator:
                case SelectorOperator.IN:
                    demand.allow_only(frozenset(requirement.values))
                case SelectorOperator.NOT_IN:
                    demand.forbidden.update(requirement.values)
                case SelectorOperator.EXISTS:
                    demand.present = True
                case SelectorOperator.DOES_NOT_EXIST:
                    demand.absent = True
    return next((key for key, demand in demands.items() if not demand.can_be_met), None)

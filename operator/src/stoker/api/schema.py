"""From pydantic models to the structural OpenAPI v3 schemas that a CustomResourceDefinition accepts."""

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from stoker.api.structural import PRESERVE_UNKNOWN, Fault, FaultKind, Path, unknown

if TYPE_CHECKING:
    from pydantic_core.core_schema import ModelSchema

INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"

MAX_VALUE = 64
"""An error repeats a value of at most so many characters."""

UNKNOWN_FIELD = "extra_forbidden"
WITHOUT_VALUE = {
    UNKNOWN_FIELD: "unknown field",
    "missing": "required",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}
KINDS = {"missing": FaultKind.REQUIRED, UNKNOWN_FIELD: FaultKind.UNKNOWN_FIELD}
"""By pydantic's type of an error."""
FIELD_OF_RULE = "field_of_rule"
"""In the context of a PydanticCustomError that a rule about several fields raises: the path of the field to change,
below the model that has the rule.
"""
A_TIME = "must be a time with its zone, such as 2026-11-21T18:00:00Z"
OWN_WORDS = {
    **WITHOUT_VALUE,
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "tuple_type": "must be a list",
    "string_type": "must be a text, in quotes where it looks like a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "datetime_type": A_TIME,
    "datetime_parsing": A_TIME,
    "datetime_from_date_parsing": A_TIME,
    "timezone_aware": A_TIME,
}
"""Pydantic's own words name Python's types."""
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class ApiModel(BaseModel):
    """A part of a Kubernetes object: camelCase outside, snake_case inside, its attributes' docstrings are its `kubectl
    explain`.

    Unknown fields are ignored, as an older operator must read a newer object; `model_validate(..., extra="forbid")`
    reports them.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        # Every command reads manifests, few read policies: a model is built when it is first used.
        defer_build=True,
        extra="ignore",
        frozen=True,
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    @classmethod
    def belongs_elsewhere(cls) -> Mapping[str, str]:
        """Names that people write here by mistake, each with what to write instead."""
        return {}

    @classmethod
    def unknown_in_open_fields(cls, document: Mapping[str, Any]) -> Iterable[Fault]:
        """The unknown fields beneath those fields of the document that have no model of their own."""
        del document
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One place where an object breaks its schema: its field path (`spec.env[0].name`, empty for the object) and what
    is allowed.
    """

    field_path: str
    message: str
    kind: FaultKind = FaultKind.INVALID

    def __str__(self) -> str:
        return f"{self.field_path}: {self.message}" if self.field_path else self.message


def violations(model: type[ApiModel], document: Mapping[str, Any]) -> list[Violation]:
    """Everything in which a document breaks a model, unknown fields included; empty for a right one."""
    found: list[Violation] = []
    try:
        model.model_validate(document, extra="forbid")
    except ValidationError as error:
        locations = [detail["loc"] for detail in error.errors() if detail["type"] == UNKNOWN_FIELD]
        named = {field_path_of(at): _unknown_field(model, at) for at in locations}
        found = [
            replace(one, message=named[one.field_path]) if one.kind is FaultKind.UNKNOWN_FIELD else one
            for one in explain(error)
        ]
    return found + [explained(fault) for fault in model.unknown_in_open_fields(document)]


Model = TypeVar("Model", bound=ApiModel)


def readable(model: type[Model], document: object) -> tuple[Model, dict[str, Any], tuple[str, ...]]:
    """Read what a model can read of a document: the model, the document without what breaks the model, and the field
    paths of that.

    Left out are fields, list items, and objects that lack a required field. For statuses, which another version may
    have written. All fields of the model itself must have defaults.
    """
    rest: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {}
    dropped: list[str] = []
    while True:
        try:
            return model.model_validate(rest), rest, tuple(dropped)
        except ValidationError as error:
            paths = [_broken(detail) for detail in error.errors(include_url=False, include_input=False)]
        smaller = _without(rest, paths)
        # Each round leaves something out, so this ends.
        rest = smaller if smaller != rest else {}
        dropped += sorted(set(map(field_path_of, paths)))


def _broken(detail: Mapping[str, Any]) -> Path:
    """The path of what can't stay because of a validation error."""
    path: Path = detail["loc"]
    return path[:-1] if detail["type"] == "missing" else path


def _without(document: Any, paths: Iterable[Path]) -> Any:
    """A document without the fields and list items at these paths."""
    below: defaultdict[int | str, list[Path]] = defaultdict(list)
    for path in paths:
        if path:
            below[path[0]].append(path[1:])
    if not below or not isinstance(document, Mapping | list | tuple):
        return document
    if isinstance(document, Mapping):
        return {key: _without(value, below.get(key, ())) for key, value in document.items() if () not in below[key]}
    return [_without(value, below.get(key, ())) for key, value in enumerate(document) if () not in below[key]]


def _unknown_field(model: type[ApiModel], location: Path) -> str:
    """What is said of an unknown field: what it is called here, or where it belongs."""
    owner: type[ApiModel] | None = model
    for part in location[:-1]:
        fields = {field.alias: field for field in owner.model_fields.values()} if owner is not None else {}
        if part in fields:
            owner = _model_within(fields[str(part)].annotation)
    if owner is None:
        return WITHOUT_VALUE[UNKNOWN_FIELD]
    return unknown(location[-1], [str(field.alias) for field in owner.model_fields.values()], owner.belongs_elsewhere())


def _model_within(annotation: Any) -> type[ApiModel] | None:
    """The model in a field's type: its own, that of its items or of its entries."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_within(one)) is not None), None)


def explain(error: ValidationError) -> list[Violation]:
    """A validation error in words for the document's author: field paths as Kubernetes writes them, the value, what is
    allowed.
    """
    found: dict[Violation, None] = {}
    for detail in error.errors(include_url=False):
        message = OWN_WORDS.get(detail["type"], detail["msg"])
        given = None if detail["type"] in WITHOUT_VALUE else detail["input"]
        kind = KINDS.get(detail["type"], FaultKind.INVALID)
        path = (*detail["loc"], *detail.get("ctx", {}).get(FIELD_OF_RULE, ()))
        found[explained(Fault(path=path, message=message, value=given, kind=kind))] = None
    return list(found)


def explained(fault: Fault) -> Violation:
    """A fault with its path as Kubernetes writes it, and with what stands there where that is short."""
    message, given = fault.message, fault.value
    if isinstance(given, str | int | float) and len(value := _written(given)) <= MAX_VALUE:
        message = message if value in message else f"{value}: {message[:1].lower()}{message[1:]}"
    return Violation(field_path=field_path_of(fault.path), message=message, kind=fault.kind)


def _written(value: str | int | float) -> str:
    """A value as its author wrote it, texts in quotes."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def field_path_of(location: tuple[int | str, ...], *, inner: bool = False) -> str:
    """`('spec', 'env', 0, 'name')` as `spec.env[0].name`; a key that reads like no field in brackets.

    inner: the rest of a path, with the dot that it begins with.
    """
    path = "".join(f".{part}" if isinstance(part, str) and FIELD.fullmatch(part) else f"[{part}]" for part in location)
    return path if inner else path.removeprefix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One CEL rule of a schema (`x-kubernetes-validations`).

    `field_path` is relative to where the rule stands and is what the error names; `message_expression` wins over
    `message`, which is shown where the expression fails.
    """

    rule: str
    message: str
    message_expression: str | None = None
    field_path: str | None = None
    on_create: bool = False
    """Whether the rule holds for new objects alone: one about what never changes must not lock what is stored, its
    suspension least of all.
    """

    def to_schema(self) -> dict[str, str | bool]:
        """The rule as the API server reads it."""
        rule = f"oldSelf.hasValue() || ({self.rule})" if self.on_create else self.rule
        entry: dict[str, str | bool] = {"rule": rule, "message": self.message}
        if self.on_create:
            entry["optionalOldSelf"] = True
        if self.message_expression is not None:
            entry["messageExpression"] = self.message_expression
        if self.field_path is not None:
            entry["fieldPath"] = self.field_path
        return entry


def validations(*rules: Validation) -> dict[str, Any]:
    """The rules as `json_schema_extra` of a field or a model."""
    return {VALIDATIONS: [rule.to_schema() for rule in rules]}


@dataclass(frozen=True, slots=True)
class Like:
    """Marks a string that must match a pattern, and says so in `words` where the schema's own `pattern` would show the
    expression: in Python by a validator, in the cluster by a CEL rule.
    """

    pattern: str
    words: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", re.compile(self.pattern))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        rule = Validation(rule=f"self.matches('{self.pattern}')", message=self.words)
        return {**handler(schema), **validations(rule)}

    def _check(self, text: str) -> str:
        if self._compiled.fullmatch(text) is None:
            raise PydanticCustomError("pattern", "{words}", {"words": self.words})
        return text


KEPT = (
    "default",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "nullable",
    "pattern",
    "required",
    "type",
)
"""Keywords that mean the same in JSON Schema and in a structural schema."""


def attribute_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """The texts beneath a model's fields, by the field's name.

    Pydantic reads them too (`use_attribute_docstrings`), but whenever a model is imported, and all sources with it.
    """
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, ApiModel):
            texts |= _own_docstrings(cls)
    return texts


@cache
def _own_docstrings(cls: type[ApiModel]) -> Mapping[str, str]:
    """The texts of the fields that the class itself defines; kept, since `inspect` parses the module for each class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, following in pairwise(definition.body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


class _Described(GenerateJsonSchema):
    """JSON schemas in which a field's description is the text beneath it."""

    def model_schema(self, schema: "ModelSchema") -> JsonSchemaValue:
        document = super().model_schema(schema)
        texts = attribute_docstrings(schema["cls"])
        for name, info in schema["cls"].model_fields.items():
            if name in texts and info.alias in document.get("properties", {}):
                document["properties"][info.alias].setdefault("description", texts[name])
        return document


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema: references inlined, null dropped, and nothing that the API server refuses.

    Raises TypeError for what a structural schema can't say: a field without a type, a tuple, a union, recursion.
    """
    document = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Described)
    return _Converter(document.get("$defs", {})).convert(document, path=model.__name__)


class _Converter:
    """Converts one document's nodes; knows the definitions that they refer to."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def convert(self, node: Mapping[str, Any], *, path: str, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        node, inside = self._resolved(node, path, inside)
        schema: dict[str, Any] = {}
        if "description" in node:
            schema["description"] = " ".join(str(node["description"]).split())
        schema.update((key, node[key]) for key in KEPT if key in node)
        if schema.get("default", True) in (None, "", [], {}):
            del schema["default"]  # an empty default means that the field may be absent
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if exclusive in node:
                schema[bound], schema[exclusive] = node[exclusive], True
        if "const" in node:
            schema.setdefault("enum", [node["const"]])
        schema.update((key, value) for key, value in node.items() if key.startswith("x-kubernetes-"))
        if INT_OR_STRING in schema:
            schema.pop("type", None)
            return schema
        match schema.get("type"):
            case "object":
                self._convert_object(node, schema, path, inside)
            case "array":
                self._convert_array(node, schema, path, inside)
            case None:
                msg = f"{path}: a structural schema needs one type, this has none: {dict(node)}"
                raise TypeError(msg)
        return schema

    def _convert_object(
        self, node: Mapping[str, Any], schema: dict[str, Any], path: str, inside: tuple[str, ...]
    ) -> None:
        if "properties" in node:
            schema["properties"] = {
                name: self.convert(property_, path=f"{path}.{name}", inside=inside)
                for name, property_ in node["properties"].items()
            }
        elif isinstance(node.get("additionalProperties"), Mapping):
            schema["additionalProperties"] = self.convert(
                node["additionalProperties"], path=f"{path}[*]", inside=inside
            )
        elif PRESERVE_UNKNOWN not in schema:
            msg = f"{path}: an object needs properties, or {PRESERVE_UNKNOWN}"
            raise TypeError(msg)

    def _convert_array(
        self, node: Mapping[str, Any], schema: dict[str, Any], path: str, inside: tuple[str, ...]
    ) -> None:
        if not isinstance(node.get("items"), Mapping):
            msg = f"{path}: an array needs one type of items"
            raise TypeError(msg)
        schema["items"] = self.convert(node["items"], path=f"{path}[]", inside=inside)
        schema.setdefault(LIST_TYPE, "atomic")

    def _resolved(
        self, node: Mapping[str, Any], path: str, inside: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The node with its reference and its null taken away; what stands beside them wins over what they refer to."""
        merged = dict(node)
        while "$ref" in merged or "anyOf" in merged:
            if "$ref" in merged:
                name = merged.pop("$ref").rsplit("/", 1)[-1]
                if name in inside:
                    msg = f"{path}: {name} contains itself"
                    raise TypeError(msg)
                inside = (*inside, name)
                target: Mapping[str, Any] = self._definitions[name]
            else:
                options = [option for option in merged.pop("anyOf") if option.get("type") != "null"]
                if INT_OR_STRING in merged:
                    continue
                if len(options) != 1:
                    msg = f"{path}: a structural schema has no unions: {options}"
                    raise TypeError(msg)
                target = options[0]
            own = {key: value for key, value in merged.items() if key not in {"default", "title"} or value is not None}
            merged = {**target, **own}
            if VALIDATIONS in target and VALIDATIONS in own:
                merged[VALIDATIONS] = [*target[VALIDATIONS], *own[VALIDATIONS]]
        return merged, inside

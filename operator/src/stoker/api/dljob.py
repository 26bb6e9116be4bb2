"""DLJob: a deep-learning job on one or more nodes, each with the same number of GPUs."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import no_info_plain_validator_function

from stoker.api import kubernetes_schema
from stoker.api.bounds import MAX_DEPTH, MAX_SPEC_BYTES
from stoker.api.duration import parse_duration
from stoker.api.duration_range import Between
from stoker.api.environment import RESERVED_NAMES, RESERVED_PREFIXES
from stoker.api.meta import Boolean, Integer, ObjectMeta
from stoker.api.schema import INT_OR_STRING, ApiModel, Validation, readable, validations
from stoker.api.status import WorkloadStatus
from stoker.api.structural import (
    A_QUANTITY,
    QUANTITY_PATTERN,
    Fault,
    FaultKind,
    depth,
    faults,
    is_quantity,
    unknown_fields,
    without_nulls,
)
from stoker.findings.vocabulary import (
    Framework,
    JobType,
    SuccessPolicy,
)

KIND = "DLJob"
PLURAL = "dljobs"
TRAINER = "trainer"
"""Name of the container that runs the job."""

MAX_NAME_LENGTH = 58
"""`<name>-<index>` is a host name of at most 63 characters, and an index has up to four digits; so is the Service's
name, which has a prefix of four.
"""
MAX_SCRIPT_BYTES = 65_536
"""Bytes of spec.script; a longer program belongs into the image or into spec.sources."""
SCRIPT_REMEDY = "put the program into the image or into spec.sources"
DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
GPU_PRODUCT_LABELS: Mapping[str, str] = {"nvidia.com": "nvidia.com/gpu.product", "amd.com": "amd.com/gpu.product-name"}
"""The node label that names the GPU's product, by the prefix of the GPU resource (NVIDIA's GPU feature discovery, AMD's
node labeller).
"""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
RESOURCE_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

MUTABLE = ("suspend", "reclaim", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
"""The fields of the spec that may change."""


def _quantity(value: object) -> int | str:
    if is_quantity(value):
        assert isinstance(value, int | str)
        return value
    raise PydanticCustomError("quantity", A_QUANTITY)


Quantity = Annotated[
    int | str, PlainValidator(_quantity), WithJsonSchema({INT_OR_STRING: True, "pattern": QUANTITY_PATTERN})
]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class KeySelector(ApiModel):
    """One key of a ConfigMap or Secret of the job's namespace."""

    name: Name
    """Name of the ConfigMap or Secret."""
    key: Name
    """The key to read."""
    optional: Boolean | None = None
    """Whether the pod may start without it."""


class FieldSelector(ApiModel):
    """A field of the pod."""

    api_version: Annotated[str, Field(max_length=63)] | None = None
    """Version of the schema that the path is written for. Default: v1."""
    field_path: Annotated[str, Field(min_length=1, max_length=512)]
    """Path of the field, such as metadata.name or status.podIP."""


class ResourceSelector(ApiModel):
    """A resource of a container."""

    container_name: Annotated[str, Field(max_length=63)] | None = None
    """The container. Default: this one."""
    resource: Annotated[str, Field(min_length=1, max_length=317)]
    """The resource, such as limits.cpu."""
    divisor: Quantity | None = None
    """Unit of the value. Default: 1."""


class EnvVarSource(ApiModel):
    """Where a variable's value is read from when the pod starts; exactly one of these."""

    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap of the job's namespace."""
    secret_key_ref: KeySelector | None = None
    """A key of a Secret of the job's namespace."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""
    resource_field_ref: ResourceSelector | None = None
    """A resource of a container."""


class EnvVar(ApiModel):
    """An environment variable of the trainer."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the variable. One that is injected (STOKER_*, PET_*, MASTER_*) is overridden."""
    value: Annotated[str, Field(max_length=131_071)] | None = None
    """The value; $(OTHER) is replaced by the kubelet. Default: empty."""
    value_from: EnvVarSource | None = None
    """Source of the value, read when the pod starts; cannot be combined with value."""


class ResourceRequirements(ApiModel):
    """CPU, memory and other resources of the trainer. GPUs are added from gpusPerNode."""

    limits: Annotated[dict[str, Quantity], Field(default_factory=dict, max_length=64)]
    """The most that the container may use, such as {cpu: 64, memory: 512Gi}."""
    requests: Annotated[dict[str, Quantity], Field(default_factory=dict, max_length=64)]
    """What the scheduler reserves for the container. Default: the limits."""


class Sources(ApiModel):
    """The job's program, mounted at /workspace."""

    config_map: Name
    """A ConfigMap of the job's namespace; each key becomes a file in /workspace, which is then the working directory.
    """


class JobReclaim(ApiModel):
    """What the job requests about reclaim, within the limits of the UtilizationPolicy."""

    idle_after: Annotated[str, Between("10m", "24h")] | None = None
    """How long all GPUs must be idle before the job counts as idle, from 10m to 24h. Default: the policy's idleAfter.
    """


SPELLED = ("gpuResource", "gpuProduct", "image", "framework", "jobType", "successPolicy")
"""Short texts, which an error may repeat."""
COUNTED = ("nodes", "gpusPerNode", "maxRestarts")
UNSPOKEN = ("script", "command", "args", "env", "resources", "sources", "podTemplate")
"""What may be long, or hold what should not be repeated."""
ALWAYS_SET = frozenset({"nodes", "gpusPerNode", "gpuResource", "image", "successPolicy"})


OTHER_NAMES = {
    "backoffLimit": "maxRestarts",
    "completions": "nodes",
    "gpus": "gpusPerNode",
    "numNodes": "nodes",
    "numWorkers": "nodes",
    "parallelism": "nodes",
    "replicas": "nodes",
    "template": "podTemplate",
    "workers": "nodes",
}
"""What other kinds of jobs call a field of ours."""


def _immutable(field: str) -> Validation:
    """The transition rule that keeps a field of the spec as it was created.

    It stands at the spec, because a rule at the field itself misses its being added or removed.
    """
    same = f"self.{field} == oldSelf.{field}"
    rule = (
        same if field in ALWAYS_SET else f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {same})"
    )
    remedy = f"recreate the DLJob, or use another name (only {', '.join(MUTABLE)} may change)"
    expression = None
    if field not in UNSPOKEN:
        # `string()` of a number has no bound that the API server knows.
        texts = [f"'%d'.format([{of}.{field}])" if field in COUNTED else f"{of}.{field}" for of in ("self", "oldSelf")]
        if field not in ALWAYS_SET:
            texts = [
                f"has({of}.{field}) ? {text} : 'the default'"
                for of, text in zip(("self", "oldSelf"), texts, strict=True)
            ]
        expression = f"'%s cannot replace %s, the field is immutable: {remedy}'.format([{', '.join(texts)}])"
    return Validation(
        rule=rule, message=f"the field is immutable: {remedy}", message_expression=expression, field_path=f".{field}"
    )


COMPLETION_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)
"""Labels by which the Job controller finds its pods."""

OPERATORS_POD_FIELDS = {
    "restartPolicy": "set spec.maxRestarts instead",
    "hostname": "it contains the pod's rank, by which other pods find it",
    "subdomain": "the job's Service, by which the pods find one another, needs it",
}
OPERATORS_CONTAINER_FIELDS = {"image": "spec.image", "command": "spec.command", "args": "spec.args"}


class PodTemplateSchema:
    """Marks podTemplate: the model and the CRD check it by Kubernetes' own schema, which is read when it is needed."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source, handler
        return no_info_plain_validator_function(_pod_template)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        del schema, handler
        return kubernetes_schema.structural(kubernetes_schema.partial_template())


def _pod_template(value: object) -> dict[str, Any]:
    """A pod template as the API server stores it, without nulls. Raises a ValidationError with each field's path."""
    if (levels := depth(value)) > MAX_DEPTH:
        allowed = {"levels": levels, "most": MAX_DEPTH}
        raise PydanticCustomError("pod_template_depth", "has {levels} levels, at most {most} are allowed", allowed)
    wrong = [
        InitErrorDetails(
            type=PydanticCustomError(
                "missing" if fault.kind is FaultKind.REQUIRED else "pod_template",
                "{message}",
                {"message": fault.message},
            ),
            loc=fault.path,
            input=fault.value,
        )
        for fault in faults(kubernetes_schema.partial_template(), value)
    ]
    if wrong:
        raise ValidationError.from_exception_data("podTemplate", wrong)
    template: dict[str, Any] = without_nulls(value)
    return template


def _absent(root: str, *path: str) -> str:
    """CEL: whether a part of the path below `root` is absent. Optional fields (`?.`) would hide the sizes that bound a
    rule's cost.
    """
    steps = (".".join((root, *path[: depth + 1])) for depth in range(len(path)))
    return " || ".join(f"!has({step})" for step in steps)


def _pod_template_rules() -> Iterator[Validation]:
    at = "spec.podTemplate"
    labels = f"[{', '.join(repr(label) for label in COMPLETION_LABELS)}]"
    yield Validation(
        rule=f"{_absent('self', 'podTemplate', 'metadata', 'labels')}"
        f" || {labels}.all(label, !(label in self.podTemplate.metadata.labels))",
        message=f"the labels {', '.join(COMPLETION_LABELS)} are reserved for the Job controller: remove them",
        field_path=".podTemplate.metadata.labels",
    )
    for field, reason in OPERATORS_POD_FIELDS.items():
        yield Validation(
            rule=_absent("self", "podTemplate", "spec", field),
            message=f"{at}.spec.{field} is set by the operator: {reason}",
            field_path=f".podTemplate.spec.{field}",
        )
    for group in ("containers", "initContainers"):
        containers = f"{_absent('self', 'podTemplate', 'spec', group)} || self.podTemplate.spec.{group}"
        path = f".podTemplate.spec.{group}"
        reserved = " || ".join(f"e.name.startsWith('{prefix}')" for prefix in RESERVED_PREFIXES)
        yield Validation(
            rule=f"{containers}.all(c, !has(c.env) || c.env.all(e, !({reserved})))",
            message=f"variables named {RESERVED_NAMES} are set by the operator: remove them",
            field_path=path,
        )
        if group != "containers":
            continue
        for field, instead in OPERATORS_CONTAINER_FIELDS.items():
            yield Validation(
                rule=f"{containers}.all(c, c.name != '{TRAINER}' || !has(c.{field}))",
                message=f"the {field} of container {TRAINER} is set by the operator: set {instead} instead",
                field_path=path,
            )
        limits, requests = (
            f"(self.gpuResource in c.?resources.?{kind}.orValue({{}}))" for kind in ("limits", "requests")
        )
        yield Validation(
            rule=f"{containers}.all(c, c.name != '{TRAINER}' || !({limits} || {requests}))",
            message=f"the GPUs of container {TRAINER} are set by the operator: set spec.gpusPerNode instead",
            field_path=path,
        )


def _length(text: str) -> str:
    """CEL: the characters of a text that may be absent."""
    return f"(has({text}) ? size({text}) : 0)"


def _lengths(of: str) -> Iterator[str]:
    """CEL: the characters of what a container runs, and with which variables."""
    for words in ("command", "args"):
        yield f"(has({of}.{words}) ? {of}.{words}.map(w, size(w)).sum() : 0)"
    yield f"(has({of}.env) ? {of}.env.map(e, {_length('e.value')}).sum() : 0)"


def _text_rules() -> Iterator[Validation]:
    """Bounds of the texts together; the API server holds to them where no webhook does."""
    own = " + ".join((_length("self.script"), *_lengths("self")))
    yield _total("script, command, args and env", own)
    for group in ("containers", "initContainers"):
        missing = _absent("self", "podTemplate", "spec", group)
        total = f"({missing}) ? 0 : self.podTemplate.spec.{group}.map(c, {' + '.join(_lengths('c'))}).sum()"
        yield _total(f"command, args and env of all {group}", total, f".podTemplate.spec.{group}")
    missing, at = _absent("self", "podTemplate", "metadata", "annotations"), "podTemplate.metadata.annotations"
    total = f"({missing}) ? 0 : self.{at}.map(k, size(self.{at}[k])).sum()"
    yield _total("the annotations", total, f".{at}")


def _total(what: str, total: str, field_path: str | None = None) -> Validation:
    message = f"{what} may have at most {MAX_SPEC_BYTES} characters together"
    return Validation(rule=f"({total}) <= {MAX_SPEC_BYTES}", message=message, field_path=field_path, on_create=True)


SPEC_RULES = (
    *_text_rules(),
    Validation(
        rule="!has(self.script) || (!has(self.command) && !has(self.args))",
        message="spec.script cannot be combined with spec.command and spec.args: keep the script, or the "
        "command and its args",
        field_path=".script",
    ),
    Validation(
        rule="!has(self.gpuProduct) || "
        + " || ".join(f"self.gpuResource.startsWith('{prefix}/')" for prefix in GPU_PRODUCT_LABELS),
        message="no node label is known for this gpuResource",
        message_expression="'no node label is known for spec.gpuResource %s (known: "
        + ", ".join(f"{prefix}/" for prefix in GPU_PRODUCT_LABELS)
        + "): write the node selector in spec.podTemplate.spec.nodeSelector'.format([self.gpuResource])",
        field_path=".gpuProduct",
    ),
    *_pod_template_rules(),
    *(_immutable(field) for field in (*COUNTED, *SPELLED, *UNSPOKEN)),
)


class DLJobSpec(ApiModel):
    """What to run, on which GPUs; immutable but for suspend, reclaim and the two time limits."""

    model_config = ConfigDict(json_schema_extra=validations(*SPEC_RULES))

    nodes: Annotated[Integer, Field(ge=1, le=1024, json_schema_extra={"format": "int32"})] = 1
    """Number of pods, each with the same GPUs, from 1 to 1024. Default: 1."""
    gpus_per_node: Annotated[Integer, Field(ge=0, le=64, json_schema_extra={"format": "int32"})]
    """GPUs of each pod, from 0 to 64. The launcher learns it from PET_NPROC_PER_NODE and STOKER_GPUS_PER_NODE."""
    gpu_resource: Annotated[str, Field(pattern=RESOURCE_PATTERN, max_length=317)] = DEFAULT_GPU_RESOURCE
    """The resource that counts the GPUs, such as amd.com/gpu or nvidia.com/mig-1g.10gb. Default: nvidia.com/gpu."""
    gpu_product: Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)] | None = None
    """The product that the nodes' GPUs must be, such as NVIDIA-A100-SXM4-80GB; becomes a node selector on the vendor's
    product label.
    """
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """The container image, best with a tag or digest that never moves, such as registry.example.com/nlp/bert:2026.11.
    """
    script: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=MAX_SCRIPT_BYTES,
                json_schema_extra=validations(
                    Validation(
                        rule=f"size(bytes(self)) <= {MAX_SCRIPT_BYTES}",
                        message=f"at most {MAX_SCRIPT_BYTES} bytes are allowed: {SCRIPT_REMEDY}",
                        message_expression=f"'%d bytes, at most {MAX_SCRIPT_BYTES} are allowed: {SCRIPT_REMEDY}'"
                        ".format([size(bytes(self))])",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Start-up shell script, at most 65,536 bytes, run in every pod by bash (sh where the image has no bash). Cannot be
    combined with command and args.
    """
    command: (
        Annotated[tuple[Annotated[str, Field(max_length=131_071)], ...], Field(min_length=1, max_length=256)] | None
    ) = None
    """Command of the trainer in place of the image's entry point; cannot be combined with script."""
    args: Annotated[tuple[Annotated[str, Field(max_length=131_071)], ...], Field(max_length=1024)] | None = None
    """Arguments of the command, or of the image's entry point; cannot be combined with script."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=256)] = ()
    """Environment variables of the trainer, in addition to STOKER_*, PET_* and MASTER_*."""
    resources: ResourceRequirements | None = None
    """CPU, memory and other resources of the trainer. GPUs are added from gpusPerNode."""
    sources: Sources | None = None
    """The job's program, mounted at /workspace, which is then the working directory."""
    framework: Framework | None = None
    """The deep-learning framework. Inferred when absent."""
    job_type: JobType | None = None
    """Type of the job; absent means Training. Interactive and Serving are honoured only where the UtilizationPolicy
    trusts them.
    """
    max_restarts: Annotated[Integer, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] | None = None
    """How often each pod may be restarted after a failure, from 0 to 100. Default: 3 at one node, 0 on several (a
    restarted rank can't rejoin the others). Pods lost to disruptions are replaced anyway.
    """
    success_policy: SuccessPolicy = SuccessPolicy.ALL
    """When the job counts as succeeded: when All its pods have succeeded, or when its Leader (rank 0) has, which ends
    the others. Default: All.
    """
    pod_template: Annotated[dict[str, Any], PodTemplateSchema()] | None = None
    """A partial PodTemplateSpec, merged by name onto the operator's: tolerations, volumes, sidecars, security context.
    Refused in it: the trainer's image, command, args and GPUs, variables named STOKER_*, PET_* or MASTER_*,
    restartPolicy, hostname, subdomain and the labels of job completion.
    """
    suspend: Boolean | None = None
    """Whether the job is suspended: its pods are terminated and its GPUs freed until this is false again. The script
    then starts from the beginning.
    """
    reclaim: JobReclaim | None = None
    """What the job requests about reclaim, within the limits of the UtilizationPolicy."""
    active_deadline_seconds: Annotated[Integer, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Seconds that the job may run before it fails; the clock starts again on resume. Default: no limit."""
    ttl_seconds_after_finished: Annotated[Integer, Field(ge=0, json_schema_extra={"format": "int32"})] | None = None
    """Seconds after which a finished DLJob is deleted, with everything that it created. Default: never."""

    @field_validator("script")
    @classmethod
    def _script_fits(cls, script: str | None) -> str | None:
        size = len(script.encode()) if script is not None else 0
        if size > MAX_SCRIPT_BYTES:
            raise PydanticCustomError(
                "script_bytes",
                "{size} bytes, at most {limit} are allowed: {remedy}",
                {"size": size, "limit": MAX_SCRIPT_BYTES, "remedy": SCRIPT_REMEDY},
            )
        return script

    @field_validator("command", "args")
    @classmethod
    def _script_stands_alone(cls, words: tuple[str, ...] | None, info: Any) -> tuple[str, ...] | None:
        if words is not None and info.data.get("script") is not None:
            raise PydanticCustomError(
                "script_excludes", "spec.script cannot be combined with spec.command and spec.args: keep one of them"
            )
        return words

    @field_validator("gpu_product")
    @classmethod
    def _product_has_label(cls, product: str | None, info: Any) -> str | None:
        resource = info.data.get("gpu_resource", DEFAULT_GPU_RESOURCE)
        if product is not None and resource.partition("/")[0] not in GPU_PRODUCT_LABELS:
            raise PydanticCustomError(
                "gpu_product",
                "no node label is known for spec.gpuResource {resource} (known: {prefixes}): write the node selector in"
                " spec.podTemplate.spec.nodeSelector",
                {"resource": resource, "prefixes": ", ".join(f"{prefix}/" for prefix in GPU_PRODUCT_LABELS)},
            )
        return product

    @field_validator("pod_template")
    @classmethod
    def _template_keeps_out(cls, template: dict[str, Any] | None, info: Any) -> dict[str, Any] | None:
        resource = info.data.get("gpu_resource", DEFAULT_GPU_RESOURCE)
        refusals = list(pod_template_refusals(template or {}, gpu_resource=resource))
        if refusals:
            raise PydanticCustomError("pod_template", "{refusals}", {"refusals": "; ".join(refusals)})
        return template

    @classmethod
    def belongs_elsewhere(cls) -> Mapping[str, str]:
        at = "spec.podTemplate.spec"
        of_container = dict.fromkeys(
            kubernetes_schema.container()["properties"], f"set it in {at}.containers, in the container {TRAINER}"
        )
        of_pod = dict.fromkeys(kubernetes_schema.pod_spec()["properties"], f"it is a field of the pod: set it in {at}")
        return of_container | of_pod | {name: f"did you mean {ours}?" for name, ours in OTHER_NAMES.items()}

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.nodes * self.gpus_per_node

    @property
    def effective_max_restarts(self) -> int:
        """Restarts of each pod: as asked for, else 3 at one node and 0 on several (a restarted rank can't rejoin)."""
        if self.max_restarts is not None:
            return self.max_restarts
        return 3 if self.nodes == 1 else 0

    @property
    def node_selector(self) -> dict[str, str]:
        """The node selector that gpuProduct stands for."""
        if self.gpu_product is None:
            return {}
        return {GPU_PRODUCT_LABELS[self.gpu_resource.partition("/")[0]]: self.gpu_product}


def pod_template_refusals(template: Mapping[str, Any], *, gpu_resource: str) -> Iterator[str]:
    """What a pod template may not set, each with its field path and what to use instead."""
    at = "spec.podTemplate"
    metadata, spec = _mapping(template.get("metadata")), _mapping(template.get("spec"))
    for label in COMPLETION_LABELS:
        if label in _mapping(metadata.get("labels")):
            yield f"{at}.metadata.labels[{label}] is reserved for the Job controller: remove it"
    for field, reason in OPERATORS_POD_FIELDS.items():
        if field in spec:
            yield f"{at}.spec.{field} is set by the operator: {reason}"
    for group in ("containers", "initContainers"):
        for container in _mappings(spec.get(group)):
            name = container.get("name")
            path = f"{at}.spec.{group}[{name}]"
            for variable in _mappings(container.get("env")):
                if str(variable.get("name", "")).startswith(RESERVED_PREFIXES):
                    yield f"{path}.env[{variable['name']}]: {RESERVED_NAMES} are set by the operator: remove it"
            if group != "containers" or name != TRAINER:
                continue
            for field, instead in OPERATORS_CONTAINER_FIELDS.items():
                if field in container:
                    yield f"{path}.{field} is set by the operator: set {instead} instead"
            resources = _mapping(container.get("resources"))
            for kind in ("limits", "requests"):
                if gpu_resource in _mapping(resources.get(kind)):
                    yield (
                        f"{path}.resources.{kind}[{gpu_resource}] is set by the operator: set spec.gpusPerNode instead"
                    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


class DLJobStatus(WorkloadStatus):
    """The observed state, written by the operator. Written by the operator only."""

    observed_suspend: bool | None = None
    """spec.suspend at the last reconcile; distinguishes a change from a restart of the operator."""
    job_uid: Annotated[str | None, Field(alias="jobUID")] = None
    """The Job that was created for it; a Job is created only once."""


class DLJob(ApiModel):
    """A deep-learning job: one or more pods with the same GPUs each, checked before it starts and watched while it
    runs.
    """

    api_version: Literal["stoker.dev/v1alpha1"] = "stoker.dev/v1alpha1"
    kind: Literal["DLJob"] = "DLJob"
    metadata: ObjectMeta
    spec: DLJobSpec
    """The desired state: what to run, on which GPUs."""
    status: DLJobStatus | None = None
    """The observed state, written by the operator."""

    @field_validator("status", mode="wrap")
    @classmethod
    def _readable_status(cls, value: object, handler: ValidatorFunctionWrapHandler) -> DLJobStatus | None:
        """A status that another version wrote never keeps a job from being read."""
        try:
            status: DLJobStatus | None = handler(value)
        except ValidationError:
            status, _, left_out = readable(DLJobStatus, value)
            status._left_out = left_out  # noqa: SLF001 - its own module
        return status

    @classmethod
    def unknown_in_open_fields(cls, document: Mapping[str, Any]) -> Iterator[Fault]:
        template = _mapping(document.get("spec")).get("podTemplate")
        if template is not None:  # else Kubernetes' schema need not be read
            yield from unknown_fields(kubernetes_schema.partial_template(), template, ("spec", "podTemplate"))

    @property
    def name(self) -> str:
        """Its name; empty for a manifest that leaves it to the server."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace; empty for a manifest without one."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Its uid; empty before it is created."""
        return self.metadata.uid

    @property
    def job_type(self) -> JobType:
        """What it says it is; Training where it says nothing."""
        return self.spec.job_type or JobType.TRAINING

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.spec.gpus

    @property
    def effective_max_restarts(self) -> int:
        """Restarts of each pod."""
        return self.spec.effective_max_restarts

    @property
    def idle_after(self) -> timedelta | None:
        """The job's own spec.reclaim.idleAfter."""
        own = self.spec.reclaim.idle_after if self.spec.reclaim is not None else None
        return None if own is None else parse_duration(own)

"""What admission rules look at: one submitted workload, read once, whatever kind of object it came in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from stoker.models.dljob import TRAINER, DLJob, EnvVar
from stoker.models.environment import injected
from stoker.models.finding import Location
from stoker.models.vocabulary import Confidence, Framework, JobType
from stoker.subjects.image_reference import (
    ImageFamily,
    ImageKind,
    ImageReference,
    ImageReferenceError,
    classify,
    parse,
)
from stoker.subjects.launch_plan import Count, Launch, LaunchPlan, plan
from stoker.subjects.pod import SHARED_MEMORY, Pod, listed, mapping, quantity, read_pod
from stoker.subjects.shell_model import Invocation, ShellScript, Span, Word
from stoker.subjects.shell_script import expand_kubernetes, interpret, interpret_argv

WHOLE_GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
"""Extended resources of which one unit is one whole device. Slices (MIG, time-sliced) can't be counted as devices."""

WORKSPACE = "/workspace"
"""Where a DLJob's sources are mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The trainer's image: as written, parsed, and what is known of it.

    `reference` is None where the text is missing or no reference; `error` then says why, in one line.
    """

    text: str
    reference: ImageReference | None = None
    error: str | None = None
    family: ImageFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The field paths of a kind, for locations and for the words of a change."""

    image: str = "spec.image"
    script: str = "spec.script"
    command: str = "spec.command"
    args: str = "spec.args"
    env: str = "spec.env"
    nodes: str = "spec.nodes"
    gpus_per_node: str = "spec.gpusPerNode"
    job_type: str = "spec.jobType"
    max_restarts: str = "spec.maxRestarts"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A submitted workload.

    environment: the trainer's variables, the injected ones included; None = set, but its value is unknown.
    script: what the trainer runs; None = the image's own entry point. plan: the commands of the script.
    script_field: the field that `script.source` is the text of; "" for a plain argument vector.
    argv: the trainer's command and args with their field paths, after the kubelet's expansion.
    entry_known: the first word of the script is what the container runs (not an argument of the image's entry point).
    environment_known: False with `envFrom`: variables nobody in sight sets may be set after all.
    job_type_trusted: the policy takes the declared job type at its word.
    """

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: int
    gpus_per_node: int
    gpu_resource: str
    job_type: JobType
    job_type_trusted: bool = True
    framework: Framework | None = None
    image: Image
    environment: Mapping[str, str | None] = field(default_factory=dict)
    environment_fields: Mapping[str, str] = field(default_factory=dict)
    environment_known: bool = True
    script: ShellScript | None = None
    script_field: str = ""
    argv: tuple[tuple[str, str], ...] = ()
    entry_known: bool = True
    plan: LaunchPlan | None = None
    max_restarts: int = 0
    pod: Pod = field(default_factory=Pod)
    paths: Paths = field(default_factory=Paths)

    @property
    def gpus(self) -> int:
        """GPUs of all nodes together."""
        return self.nodes * self.gpus_per_node

    @property
    def counts_devices(self) -> bool:
        """Whether one unit of the GPU resource is one device; else all rules about counts are silent."""
        return self.gpu_resource in WHOLE_GPU_RESOURCES

    @property
    def surely(self) -> Confidence:
        """The most that can be said about what the trainer runs."""
        return Confidence.CERTAIN if self.entry_known and self.environment_known else Confidence.LIKELY

    @classmethod
    def from_dljob(cls, job: DLJob, *, job_type_trusted: bool = True) -> "Submission":
        """Read a DLJob. Never raises for one that its model accepted."""
        spec = job.spec
        trainer = _trainer(spec.pod_template)
        variables = _injected(job)
        fields: dict[str, str] = {}
        for name, path, value in (*_variables(spec.env), *_template_variables(trainer)):
            variables[name] = None if value is None else _expanded(value, variables)
            fields[name] = path

        whole = spec.gpu_resource in WHOLE_GPU_RESOURCES
        gpus = spec.gpus_per_node if whole else None
        script, script_field = None, ""
        argv: tuple[tuple[str, str], ...] = ()
        if spec.script is not None:
            script = interpret(spec.script, environment=variables, gpus_per_node=gpus)
            script_field = Paths().script
        else:
            argv = _arguments(spec.command or (), spec.args or (), variables)
            # Arguments alone go to an entry point that nobody has seen; most images' one runs them as they stand.
            if argv and (spec.command or not argv[0][1].startswith("-")):
                script = interpret_argv([text for _, text in argv], environment=variables, gpus_per_node=gpus)
                script_field = next((path for path, text in argv if text == script.source), "")
        image = _image(spec.image)
        return cls(
            kind=job.kind,
            name=job.name,
            namespace=job.namespace,
            labels=job.metadata.labels,
            nodes=spec.nodes,
            gpus_per_node=spec.gpus_per_node,
            gpu_resource=spec.gpu_resource,
            job_type=job.job_type,
            job_type_trusted=job_type_trusted,
            framework=spec.framework or _framework(image.family),
            image=image,
            environment=variables,
            environment_fields=fields,
            environment_known=not trainer.get("envFrom"),
            script=script,
            script_field=script_field,
            argv=argv,
            entry_known=spec.script is not None or bool(spec.command),
            # The script's commands carry their environment: what it unsets must not come back.
            plan=None if script is None else plan(script, nodes=spec.nodes, gpus_per_node=spec.gpus_per_node),
            max_restarts=spec.effective_max_restarts,
            pod=_pod(job, trainer),
        )

    def locate(self, invocation: Invocation, words: Sequence[Word] = ()) -> Location:
        """Where some words of a command stand; the whole command without words."""
        spans = [span for span in map(self._written, words) if span is not None]
        span = reduce(Span.to, spans) if spans else invocation.span
        if self.script is not None and self.script_field and span is not None:
            excerpt = self.script.excerpt(span)
            return Location(
                field_path=self.script_field,
                line=span.line,
                column=span.column,
                end_column=span.end_column if span.end_line == span.line else None,
                excerpt=f"{excerpt.text}\n{excerpt.marker}",
            )
        wanted = [word.text for word in words or invocation.argv[:1]]
        texts = [text for _, text in self.argv]
        for index, (path, _) in enumerate(self.argv):
            if texts[index : index + len(wanted)] == wanted:
                return Location(field_path=path)
        return Location(field_path=self.argv[0][0] if self.argv else self.paths.script)

    def _written(self, word: Word) -> Span | None:
        """Where a word was written: where it stands, or, of a word that is nothing but `$VARIABLE`, its assignment."""
        if word.span is None or word.origin is None or self.script is None or word.origin.line != word.origin.end_line:
            return word.span
        line = self.script.source.split("\n")[word.span.line - 1]
        return word.origin if line[word.span.column - 1 :].startswith(("$", '"$')) else word.span

    def locate_count(self, launch: Launch, count: Count) -> Location:
        """Where a launcher's count was given: an option, a variable of the manifest, or the launch itself."""
        if not count.words and count.variable is not None and count.variable in self.environment_fields:
            return self.locate_variable(count.variable)
        return self.locate(launch.invocation, count.words)

    def locate_setting(self, invocation: Invocation, name: str, word: Word) -> Location:
        """Where a variable that is in force for a command got this value: in the script, else in the manifest."""
        return self.locate_variable(name) if word.span is None else self.locate(invocation, (word,))

    def locate_image(self) -> Location:
        """Where the image stands."""
        return Location(field_path=self.paths.image)

    def locate_variable(self, name: str) -> Location:
        """Where the manifest sets a variable; the list of variables where it doesn't."""
        return Location(field_path=self.environment_fields.get(name, self.paths.env))


def _injected(job: DLJob) -> dict[str, str | None]:
    """What the pod gets without the manifest asking: ours, the Job controller's index and the host name."""
    variables = injected(job.spec.nodes, job.spec.gpus_per_node, job.name, job.namespace)
    return {**variables, "JOB_COMPLETION_INDEX": variables["STOKER_NODE_RANK"], "HOSTNAME": None}


def _variables(env: Sequence[EnvVar]) -> Iterator[tuple[str, str, str | None]]:
    """Name, field path and value of the manifest's variables; a value read from elsewhere is None."""
    for index, variable in enumerate(env):
        if variable.value_from is None:
            yield variable.name, f"spec.env[{index}].value", variable.value or ""
        else:
            yield variable.name, f"spec.env[{index}].valueFrom", None


def _template_variables(trainer: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """The same of the pod template's trainer."""
    for index, variable in enumerate(map(mapping, listed(trainer.get("env")))):
        path = f"spec.podTemplate.spec.containers[{TRAINER}].env[{index}]"
        value = variable.get("value", "")
        known = "valueFrom" not in variable and isinstance(value, str)
        yield str(variable.get("name", "")), path, value if known else None


def _expanded(value: str, variables: Mapping[str, str | None]) -> str | None:
    """A variable's value after the kubelet's expansion; None where it takes in an unknown one."""
    if any(known is None and f"$({name})" in value for name, known in variables.items()):
        return None
    return expand_kubernetes([value], variables)[0]


def _arguments(
    command: Sequence[str], args: Sequence[str], variables: Mapping[str, str | None]
) -> tuple[tuple[str, str], ...]:
    """Command and args as the container gets them, each with its field path."""
    paths = [f"spec.command[{index}]" for index in range(len(command))]
    paths += [f"spec.args[{index}]" for index in range(len(args))]
    return tuple(zip(paths, expand_kubernetes([*command, *args], variables), strict=True))


def _image(text: str) -> Image:
    if not text.strip():
        return Image(text=text, error="is empty", family=ImageFamily(kind=ImageKind.UNKNOWN))
    try:
        reference = parse(text)
    except ImageReferenceError as error:
        return Image(text=text, error=str(error), family=ImageFamily(kind=ImageKind.UNKNOWN))
    return Image(text=text, reference=reference, family=classify(reference))


def _framework(family: ImageFamily) -> Framework | None:
    return next((framework for framework in Framework if framework.value == family.framework), None)


def _trainer(template: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The pod template's container of the trainer's name; empty where there is none."""
    containers = map(mapping, listed(mapping((template or {}).get("spec")).get("containers")))
    return next((container for container in containers if container.get("name") == TRAINER), {})


PROVIDED_VOLUMES: Mapping[str, Mapping[str, Any]] = {"shm": {"emptyDir": {"medium": "Memory"}}}
PROVIDED_MOUNTS: Mapping[str, str] = {SHARED_MEMORY: "shm"}
"""What the operator's own pod template mounts, as `workload.manifest` writes it."""


def _pod(job: DLJob, trainer: Mapping[str, Any]) -> Pod:
    at = "spec.podTemplate.spec"
    volumes, mounts = dict(PROVIDED_VOLUMES), dict(PROVIDED_MOUNTS)
    if job.spec.sources is not None:
        volumes["sources"] = {"configMap": {"name": job.spec.sources.config_map}}
        mounts[WORKSPACE] = "sources"
    pod = read_pod(
        mapping((job.spec.pod_template or {}).get("spec")),
        {"name": TRAINER, **trainer},
        at=at,
        container_at=f"{at}.containers[{TRAINER}]",
        volumes=volumes,
        mounts=mounts,
    )
    limits = job.spec.resources.limits if job.spec.resources is not None else {}
    if pod.cpu_limit_field or "cpu" not in limits:
        return pod
    return replace(pod, cpu_limit=quantity(limits["cpu"]), cpu_limit_field="spec.resources.limits.cpu")


__all__ = ["WHOLE_GPU_RESOURCES", "Image", "Paths", "Submission"]

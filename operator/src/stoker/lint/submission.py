"""What admission rules look at: one submitted workload, read once, whatever kind of object it came in.

lint.kinds makes submissions; a rule's `check` takes one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from stoker.findings.finding import Location
from stoker.findings.vocabulary import Confidence, Framework, JobType
from stoker.lint.kinds.gpu_resource import WHOLE_GPU_RESOURCES
from stoker.lint.kinds.image_reference import ImageFacts, ImageReference
from stoker.lint.kinds.pod import PodSettings
from stoker.lint.launch.plan import Count, Launch, LaunchPlan
from stoker.shell.model import Invocation, ShellScript, Span, Word

_VARIABLE = re.compile(r'"?\$(?:\w+|\{[^}]*\})"?')


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The trainer's image: as written, parsed, and what is known of it.

    `reference` is None where the text is missing or no reference, and `error` then says why, in one line; or where the
    image stands in an object that is not in sight.
    """

    text: str
    reference: ImageReference | None = None
    error: str | None = None
    family: ImageFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The field paths of a kind, for locations and for the words of a change; "" for what the kind does not have."""

    image: str = "spec.image"
    script: str = "spec.script"
    command: str = "spec.command"
    args: str = "spec.args"
    env: str = "spec.env"
    nodes: str = "spec.nodes"
    gpus_per_node: str = "spec.gpusPerNode"
    job_type: str = "spec.jobType"
    max_restarts: str = "spec.maxRestarts"
    volumes: str = "spec.podTemplate.spec.volumes"
    volume_mounts: str = "spec.podTemplate.spec.containers[trainer].volumeMounts"
    limits: str = "spec.resources.limits"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A submitted workload: one container, in as many pods as there are of it.

    nodes: the pods that work together; nodes_known: False where pods of other objects, or with other commands, may
    work with them. copies: how many such groups of pods there are, independent of one another. leaders: those of the
    nodes that `paths.nodes` does not count and that have a template of their own: a change of one of the two would part
    them. rank: the variable that holds the node's rank, "" where there is none.
    initial: an init container, which runs before the program while the pod holds its GPUs. drives: it has no GPUs
    of its own, and starts programs on those of other pods, which are the ones that are counted: MPI's launcher.
    environment: the container's variables, the injected ones included; None = set, but its value is unknown.
    script: what it runs; None = the image's own entry point. plan: the commands of the script.
    script_field: the field that `script.source` is the text of; "" for a plain argument vector.
    argv: the container's command and args with their field paths, after the kubelet's expansion.
    entry_known: the first word of the script is what the container runs (not an argument of the image's entry point).
    environment_known: False with `envFrom`: variables nobody in sight sets may be set after all.
    job_type_trusted: the policy takes the declared job type at its word.
    """

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    nodes: int
    nodes_known: bool = True
    copies: int = 1
    leaders: int = 0
    rank: str = ""
    initial: bool = False
    drives: bool = False
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
    pod: PodSettings = field(default_factory=PodSettings)
    paths: Paths = field(default_factory=Paths)

    @property
    def gpus(self) -> int:
        """GPUs of all pods together."""
        return self.nodes * self.gpus_per_node * self.copies

    @property
    def is_program(self) -> bool:
        """Whether the container is what its GPUs are for."""
        return not self.initial and not self.drives

    @property
    def counts_devices(self) -> bool:
        """Whether one unit of the GPU resource is one device; else all rules about counts are silent."""
        return self.gpu_resource in WHOLE_GPU_RESOURCES

    @property
    def surely(self) -> Confidence:
        """The most that can be said about what the container runs."""
        return Confidence.CERTAIN if self.entry_known and self.environment_known else Confidence.LIKELY

    @property
    def may_have_peers(self) -> bool:
        """Whether other pods may work with this one: a worker may wait for its head."""
        return self.nodes > 1 or not self.nodes_known

    @property
    def injects_group(self) -> bool:
        """Whether torchrun finds the group of nodes in its environment, without options."""
        return "PET_NNODES" in self.environment

    @property
    def nodes_origin(self) -> str:
        """Where the number of nodes is from: `spec.nodes is 4`."""
        beside = f", beside {self.leaders} Master" if self.leaders else ""
        return f"{self.paths.nodes} is {self.nodes - self.leaders}{beside}"

    def set_nodes(self, number: int) -> str:
        """How to change the number of nodes: `set spec.nodes: 4`."""
        if number > self.leaders:
            return f"set {self.paths.nodes}: {number - self.leaders}"
        return f"remove {self.paths.nodes.rpartition('.')[0]}"

    def locate(self, invocation: Invocation, words: Sequence[Word] = ()) -> Location:
        """Where some words of a command stand; the whole command without words."""
        span = self._underlined(words) or invocation.span
        if self.script is not None and self.script_field and span is not None:
            return self.locate_span(span)
        places = [word.argument for word in words or invocation.argv[:1] if word.argument is not None]
        if places or self.argv:
            return Location(field_path=self.argv[min(places, default=0)][0])
        return Location(field_path=self.paths.command)

    def locate_span(self, span: Span) -> Location:
        """Where a stretch of the script stands."""
        assert self.script is not None
        excerpt = self.script.excerpt(span)
        return Location(
            field_path=self.script_field,
            line=span.line,
            column=span.column,
            end_column=span.end_column if span.end_line == span.line else None,
            excerpt=f"{excerpt.text}\n{excerpt.marker}",
        )

    def _underlined(self, words: Sequence[Word]) -> Span | None:
        """Where some words of a command were written, if side by side; else where the first of them stand in it."""
        written = [span for span in map(self._written, words) if span is not None]
        together = self._stretch(written)
        if together is not None and together == reduce(Span.to, written):
            return together
        return self._stretch([word.span for word in words if word.span is not None])

    def _stretch(self, spans: Sequence[Span]) -> Span | None:
        """The first of some spans, and what follows it with nothing but blanks between."""
        together: Span | None = None
        for span in sorted(spans):
            if together is None:
                together = span
                continue
            assert self.script is not None
            between = self.script.source[self.script.offsets(together)[1] : self.script.offsets(span)[0]]
            if between.replace("\\\n", "").strip(" \t"):
                break
            together = together.to(span)
        return together

    def _written(self, word: Word) -> Span | None:
        """Where a word was written: where it stands, or, of a word that is nothing but `$VARIABLE`, its assignment."""
        if word.span is None or word.origin is None or self.script is None or word.origin.line != word.origin.end_line:
            return word.span
        start, end = self.script.offsets(word.span)
        return word.origin if _VARIABLE.fullmatch(self.script.source, start, end) else word.span

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


__all__ = ["Image", "Paths", "Submission"]

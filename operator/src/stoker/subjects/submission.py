"""What admission rules look at: one submitted workload, read once, whatever kind of object it came in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stoker.models.dljob import DLJob
from stoker.models.finding import Location
from stoker.models.vocabulary import Confidence, Framework, JobType
from stoker.subjects.image_reference import ImageFamily, ImageReference
from stoker.subjects.launch_plan import LaunchPlan
from stoker.subjects.shell_model import Invocation, ShellScript, Word

WHOLE_GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
"""Extended resources of which one unit is one whole device. Slices (MIG, time-sliced) can't be counted as devices."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What the pod template adds.

    sidecars: names of containers beside the trainer. claims: mount paths of PersistentVolumeClaims and network file systems in the
    trainer. shared_memory: a Memory emptyDir at /dev/shm. cpu_limit: cores, None without a limit.
    """

    sidecars: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    shared_memory: bool = True
    host_ipc: bool = False
    cpu_limit: float | None = None


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
        raise NotImplementedError

    def locate(self, invocation: Invocation, words: Sequence[Word] = ()) -> Location:
        """Where some words of a command stand; the whole command without words."""
        raise NotImplementedError

    def locate_variable(self, name: str) -> Location:
        """Where the manifest sets a variable."""
        raise NotImplementedError


__all__ = ["Image", "Paths", "Pod", "Submission"]

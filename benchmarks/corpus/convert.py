"""Makes job definitions of what people publish: launch scripts, commands in documentation, and manifests.

A script names its GPUs itself more often than not (`#SBATCH --gres=gpu:4`, `--nproc_per_node=8`,
`CUDA_VISIBLE_DEVICES=0,1`); what it names most of is what the job requests, and 8 where it names none (1 for
an inference server, whose default it is). The number of nodes is found the same way, 1 where there is none. The image
is one of the framework that the script mentions. All of this is read by regular expressions, apart from the code under
test: where the two disagree, one of them is wrong.

- A shell file becomes `spec.script`, as it stands. Files without any launcher or `python x.py` are left out.
- A fenced block of shell commands in Markdown that has a launcher becomes one, without its prompts and the brackets of
  its placeholders.
- A manifest of a kind that `stoker lint` reads stays as it is; from any other kind, each container that has a command
  and GPUs becomes a DLJob (command, args, env and image as they stand).
- A dstack task or service becomes `spec.script`, its commands joined by line breaks.
"""

import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

MAX_BYTES = 65_536
"""What a DLJob's script may have."""
DEFAULT_GPUS = 8
MOST_GPUS = 16
"""More on one node is a total, or no number of GPUs."""

SHELL = frozenset({".sh", ".bash", ".slurm", ".sbatch"})
MANIFESTS = frozenset({".yaml", ".yml"})
NATIVE = frozenset({"Job", "Pod", "PyTorchJob"})
TESTS = frozenset({"test", "tests", "node_modules", "third_party"})

LAUNCH = re.compile(
    r"^(?!\s*#).*?(?:\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|mpirun|mpiexec|horovodrun"
    r"|srun|deepspeed\s|vllm\s+serve|bpslaunch|fairseq-train|fairseq-hydra-train|axolotl\s+train|llamafactory-cli"
    r"|sglang\.launch_server|trl\s+sft|litgpt\s+\w+)|\bpython3?\s+(?:-[um]\s+)*[\w./${}-]+(?:\.py|train|main)\b)",
    re.MULTILINE,
)
FENCE = re.compile(r"^```[ \t]*(\S*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"<([\w./ -]+)>")
"""What a reader shall fill in: `vllm serve <model>`; to the shell it would be a file to read."""
SHELLS = frozenset({"bash", "sh", "shell", "console"})
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ +)*(?:" + LAUNCH.pattern.split(".*?", 1)[1] + ")", re.MULTILINE)
"""A launch at the start of a line: what is not said to be shell may be a tree of files, or output."""
GPUS = re.compile(
    r"--gres[= ]gpu:(?:\w+:)?(\d+)|--gpus-per-node[= ](?:\w+:)?(\d+)"
    r"|(?:--?nproc[-_]per[-_]node|-np|--num[-_]gpus|--num[-_]processes|--n_?gpus?|--gpus|--ngpu|--tp|--tensor[-_]parallel[-_]size)"
    r"[= ]\"?(?:\$\{\w+:-)?(\d+)|\b(?:NUM_|N_?|N)?GPUS?(?:_PER_NODE)?=\"?(?:\$\{\w+:-)?(\d+)"
)
VISIBLE = re.compile(r"CUDA_VISIBLE_DEVICES=\"?(\d+(?:,\d+)*)")
SERVER = re.compile(r"vllm\s+serve|vllm\.entrypoints|sglang(?:\.launch_server|\s+serve)|text-generation-launcher")
NODES = re.compile(
    r"#SBATCH\s+(?:--nodes|-N)[= ](\d+)|--(?:nnodes|num_nodes|num_machines)[= ](\d+)"
    r"|\b(?:NNODES|NUM_NODES|N_NODES)=\"?(?:\$\{\w+:-)?(\d+)"
)
IMAGES = (
    (re.compile(r"\bvllm\b"), "vllm/vllm-openai:v0.6.3"),
    (re.compile(r"\bsglang\b"), "lmsysorg/sglang:v0.4.1-cu124"),
    (re.compile(r"paddle"), "paddlepaddle/paddle:2.6.1-gpu-cuda12.0-cudnn8.9-trt8.6"),
    (re.compile(r"torch|deepspeed|accelerate|fairseq"), "pytorch/pytorch:2.4.1-cuda12.4-cudnn9-devel"),
    (re.compile(r"\bjax|flax"), "nvcr.io/nvidia/jax:24.10-py3"),
    (re.compile(r"tensorflow|keras|horovod"), "tensorflow/tensorflow:2.15.0-gpu"),
)
IMAGE = "nvcr.io/nvidia/pytorch:24.10-py3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One job definition. evidence: the GPUs per node that the script itself names; None where 8 was assumed."""

    package: str
    version: str
    path: str
    manifest: dict[str, Any]
    evidence: int | None = None

    @property
    def native(self) -> bool:
        """Whether it was a Kubernetes object of a kind that lint reads as it is."""
        return bool(self.manifest["kind"] != "DLJob")


def samples(package: str, version: str, archive: Path) -> Iterator[Sample]:
    """All job definitions that an archive yields, in the order of their paths."""
    for path, text in sorted(_files(archive)):
        for place, manifest, evidence in _definitions(path, text):
            yield Sample(package=package, version=version, path=place, manifest=manifest, evidence=evidence)


def _files(archive: Path) -> Iterator[tuple[str, str]]:
    """Path below the archive's root, and text, of every file that may hold a definition."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                path = entry.filename.partition("@")[2].partition("/")[2]
                if _wanted(path, entry.file_size):
                    yield path, zipped.read(entry).decode(errors="replace")
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                path = member.name.partition("/")[2]
                handle = tar.extractfile(member) if member.isfile() and _wanted(path, member.size) else None
                if handle is not None:
                    yield path, handle.read().decode(errors="replace")


def _wanted(path: str, size: int) -> bool:
    place = PurePosixPath(path)
    kinds = SHELL | MANIFESTS | {".md"}
    return place.suffix in kinds and size <= MAX_BYTES and not TESTS.intersection(place.parts) and "crd" not in path


def _definitions(path: str, text: str) -> Iterator[tuple[str, dict[str, Any], int | None]]:
    suffix = PurePosixPath(path).suffix
    if suffix in SHELL:
        if LAUNCH.search(text):
            yield path, *_of_script(text)
    elif suffix == ".md":
        for block in FENCE.finditer(text):
            script = re.sub(r"^\$ ", "", PLACEHOLDER.sub(r"\1", block[2]), flags=re.MULTILINE)
            if LAUNCH.search(script) if block[1] in SHELLS else not block[1] and COMMAND.search(script):
                yield f"{path}#L{text.count(chr(10), 0, block.start()) + 2}", *_of_script(script)
    else:
        try:
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError:
            return  # a template of Helm's or Jinja's
        for index, document in enumerate(documents):
            if isinstance(document, dict):
                yield from _of_document(f"{path}#{index}", document)


def _of_document(place: str, document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], int | None]]:
    if document.get("type") in {"task", "service"} and isinstance(document.get("commands"), list):
        yield place, *_of_script("\n".join(map(str, document["commands"])), image=document.get("image"))
    elif "apiVersion" in document and document.get("kind") in NATIVE:
        yield place, document, None
    elif "apiVersion" in document:
        for number, container in enumerate(_containers(document)):
            yield f"{place}/{number}", *_of_container(container)


def _of_script(script: str, image: str | None = None) -> tuple[dict[str, Any], int | None]:
    evidence = gpus_of(script)
    chosen = image or next((one for pattern, one in IMAGES if pattern.search(script)), IMAGE)
    spec: dict[str, Any] = {"gpusPerNode": evidence or DEFAULT_GPUS, "image": chosen, "script": script}
    nodes = max(_numbers(NODES, script), default=1)
    return _job(spec if nodes == 1 else {"nodes": nodes, **spec}), evidence


def gpus_of(script: str) -> int | None:
    """The most GPUs on a node that a script names; None where it names none."""
    visible = [int(index) + 1 for found in VISIBLE.finditer(script) for index in found[1].split(",")]
    named = [number for number in [*_numbers(GPUS, script), *visible] if 0 < number <= MOST_GPUS]
    return max(named, default=1 if SERVER.search(script) else None)


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    return [int(next(filter(None, found.groups()))) for found in pattern.finditer(text) if any(found.groups())]


def _of_container(container: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    spec = {"gpusPerNode": _gpus(container), "image": container.get("image", IMAGE)}
    for key in ("command", "args"):
        if isinstance(container.get(key), list):
            spec[key] = [str(word) for word in container[key]]
    names = ("name", "value", "valueFrom")
    env = [one for one in container.get("env") or () if isinstance(one, dict) and one.keys() <= set(names)]
    if env:
        spec["env"] = env
    return _job(spec), _gpus(container)


def _gpus(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    given = str(limits.get("nvidia.com/gpu", "0"))
    return int(given) if given.isdecimal() else 0


def _containers(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every container below a value that has a command and GPUs."""
    if isinstance(value, list):
        for item in value:
            yield from _containers(item)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key == "containers" and isinstance(child, list):
                yield from (
                    one
                    for one in child
                    if isinstance(one, dict) and (one.get("command") or one.get("args")) and _gpus(one)
                )
            else:
                yield from _containers(child)


def _job(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": "sample", "namespace": "corpus"},
        "spec": spec,
    }

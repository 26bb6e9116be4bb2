"""What is known of container images: the kinds, and the patterns that tell which image is of which."""

from dataclasses import dataclass
from enum import StrEnum


class ImageKind(StrEnum):
    """What an image holds, as far as deep learning on GPUs is concerned."""

    FRAMEWORK = "framework"  # a GPU build of a deep-learning framework
    CUDA = "cuda"  # CUDA base image
    CPU_ONLY = "cpu-only"  # a CPU build of a deep-learning framework
    GENERIC = "generic"  # python, ubuntu, debian, ...: anything may be installed on top
    NON_DL = "non-dl"  # Spark, R, databases, web servers, notebooks without a framework
    SERVING = "serving"  # vLLM, TGI, Triton, ...
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePattern:
    """Which images are of a family.

    repositories: patterns of registry/repository; without a registry, Docker Hub's and mirrors of it. tags: patterns of
    which the tag must match one; without_tags: of which it must match none. gpu_variant: what to use instead of a
    CPU-only image; {tag} is the tag as given, {gpu_tag} the same with gpu for cpu. entrypoint: the command that
    arguments alone are given to.
    """

    name: str
    kind: ImageKind
    repositories: tuple[str, ...]
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    framework: str | None = None
    gpu_variant: str | None = None
    entrypoint: tuple[str, ...] = ()

"""Image references by the OCI distribution grammar, and the families of images that are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class ImageReferenceError(ValueError):
    """The text is no image reference; the message says what is wrong and what is allowed, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """registry/repository:tag@digest. registry is "docker.io" and repository begins with "library/" when left out."""

    text: str
    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def floating(self) -> bool:
        """Neither digest nor a tag other than "latest": the image may change under the job."""
        return self.digest is None and self.tag in (None, "latest")


class ImageKind(StrEnum):
    FRAMEWORK = "framework"  # a GPU build of a deep-learning framework
    CUDA = "cuda"  # CUDA base image
    CPU_ONLY = "cpu-only"  # a CPU build of a deep-learning framework
    GENERIC = "generic"  # python, ubuntu, debian, ...: anything may be installed on top
    NON_DL = "non-dl"  # Spark, R, databases, web servers, notebooks without a framework
    SERVING = "serving"  # vLLM, TGI, Triton, ...
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFamily:
    """What is known of an image. name: "PyTorch", "Apache Spark", ...; gpu_variant: the reference to use instead."""

    kind: ImageKind
    name: str = ""
    framework: str | None = None
    gpu_variant: str | None = None


def parse(text: str) -> ImageReference:
    """Raises ImageReferenceError."""
    raise NotImplementedError


def classify(reference: ImageReference, extra: Iterable[Mapping[str, object]] = ()) -> ImageFamily:
    """The family, UNKNOWN when none is known. extra: an administrator's entries, tried before the built-in ones."""
    raise NotImplementedError


__all__ = ["ImageFamily", "ImageKind", "ImageReference", "ImageReferenceError", "classify", "parse"]

"""Parses image references by the OCI distribution grammar, and finds the family of an image that is known.

Used by lint.kinds.container; the families are the policy's own and those of the word list `image_families`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from stoker.api.image import ImageKind, ImagePattern
from stoker.lint.word_lists.loader import WordList, word_lists
from stoker.shell.words import matches_glob

MAX_NAME = 255
"""Characters of an image's name (distribution/reference)."""
DOCKER_HUB = "docker.io"

_ALPHANUMERIC = r"[a-z0-9]+"
_COMPONENT = re.compile(rf"{_ALPHANUMERIC}(?:(?:\.|_|__|-+){_ALPHANUMERIC})*")
_HOST_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_SHA256 = re.compile(r"[a-f0-9]{64}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What is known of an image. name: "PyTorch", "Apache Spark", ...; gpu_variant: the reference to use instead.

    framework: PyTorch, TensorFlow, JAX or Other, None where it isn't one. entrypoint: the command that the image gives
    arguments to, () where that isn't known.
    """

    kind: ImageKind
    name: str = ""
    framework: str | None = None
    gpu_variant: str | None = None
    entrypoint: tuple[str, ...] = ()


def parse(text: str) -> ImageReference:
    """Read a reference by the grammar of the OCI distribution specification.

    Raises ImageReferenceError.
    """
    if not text:
        raise ImageReferenceError("is empty; give an image such as pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime")
    if text.strip() != text or any(character.isspace() for character in text):
        raise ImageReferenceError("holds blanks; an image reference has none")
    if "://" in text:
        scheme, _, rest = text.partition("://")
        raise ImageReferenceError(f'begins with "{scheme}://"; leave the scheme out: {rest}')
    if not text.isascii() or not text.isprintable():
        raise ImageReferenceError("holds characters other than ASCII letters, digits and ._-/:@")
    name, at, digest = text.partition("@")
    if at:
        _check_digest(digest)
    slash, colon = name.rfind("/"), name.rfind(":")
    tag = None
    if colon > slash:
        name, tag = name[:colon], name[colon + 1 :]
        if not tag:
            raise ImageReferenceError("ends in a colon; give a tag after it, or leave it out")
        if not _TAG.fullmatch(tag):
            raise ImageReferenceError(
                f'has the tag "{_short(tag)}"; a tag has at most 128 letters, digits, "_", "." and "-", '
                'and doesn\'t begin with "." or "-"'
            )
    registry, repository = _split(name)
    return ImageReference(text=text, registry=registry, repository=repository, tag=tag, digest=digest if at else None)


def _check_digest(digest: str) -> None:
    algorithm, _, content = digest.partition(":")
    if not _DIGEST.fullmatch(digest) or (algorithm == "sha256" and not _SHA256.fullmatch(content)):
        raise ImageReferenceError(
            f'has the digest "{_short(digest)}"; a digest is sha256: and 64 lower-case hexadecimal digits'
        )


def _split(name: str) -> tuple[str, str]:
    """Registry and repository."""
    if not name:
        raise ImageReferenceError("has no name before its tag or digest")
    first, slash, rest = name.partition("/")
    is_registry = bool(slash) and (
        any(each in first for each in ".:[") or first == "localhost" or first.lower() != first
    )
    registry, repository = (first, rest) if is_registry else (DOCKER_HUB, name)
    if is_registry and not _DOMAIN.fullmatch(registry):
        raise ImageReferenceError(
            f'has the registry "{_short(registry)}"; a registry is a host name, with a port or without'
        )
    if not repository:
        raise ImageReferenceError(f'names the registry "{_short(registry)}" only; give a repository after it')
    for component in repository.split("/"):
        if _COMPONENT.fullmatch(component):
            continue
        if not component:
            raise ImageReferenceError("has an empty part between slashes")
        if component.lower() != component and _COMPONENT.fullmatch(component.lower()):
            capital = [one for one in repository.split("/") if one.lower() != one]
            names = " and ".join(f'"{_short(one)}"' for one in capital)
            lower = " and ".join(f'"{_short(one.lower())}"' for one in capital)
            raise ImageReferenceError(f"has capital letters in {names}; use {lower}")
        raise ImageReferenceError(
            f'has the part "{_short(component)}"; a part has lower-case letters and digits, '
            'with ".", "_", "__" or "-" only between them'
        )
    if len(registry) + 1 + len(repository) > MAX_NAME:
        raise ImageReferenceError(f"has a name of {len(registry) + 1 + len(repository)} characters; at most {MAX_NAME}")
    if not is_registry and re.fullmatch(r"[a-f0-9]{64}", repository):
        raise ImageReferenceError("is an image ID; give a repository and a tag or digest")
    if registry == "index.docker.io":
        registry = DOCKER_HUB
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository


def _short(text: str) -> str:
    return text if len(text) <= 48 else f"{text[:45]}..."


# ------------------------------------------------------------------------------------------------------------- families


Families = Sequence[ImagePattern]


@cache
def known_families() -> Families:
    """All families of the word list `image_families`, a site's before Stoker's own.

    Raises WordListError where a site's list is broken.
    """
    return families_of(word_lists("image_families"))


def families_of(lists: Sequence[WordList]) -> Families:
    """The families of some word lists, in the order in which they are tried: those of the last list first."""
    return tuple(
        ImagePattern(
            name=entry["name"],
            kind=ImageKind(entry["kind"]),
            repositories=tuple(entry["repositories"]),
            tags=tuple(entry.get("tags", ())),
            without_tags=tuple(entry.get("withoutTags", ())),
            framework=entry.get("framework"),
            gpu_variant=entry.get("gpuVariant"),
            entrypoint=tuple(entry.get("entrypoint", ())),
        )
        for one in reversed(lists)
        for entry in one.get("families", ())
    )


# Docker Hub's official images under other names.
_HUB_MIRRORS = (
    "mirror.gcr.io/library/",
    "public.ecr.aws/docker/library/",
    "public.ecr.aws/ubuntu/",
    "quay.io/library/",
)


def classify(reference: ImageReference, families: Families = ()) -> ImageFacts:
    """The family, UNKNOWN when none is known. families: an administrator's, tried before those of the word list."""
    return _first(reference, families) or _known(reference)


@lru_cache(maxsize=4096)
def _known(reference: ImageReference) -> ImageFacts:
    """By the word list; jobs share their images."""
    return _first(reference, known_families()) or ImageFacts(kind=ImageKind.UNKNOWN)


def _first(reference: ImageReference, families: Families) -> ImageFacts | None:
    tag = reference.tag if reference.tag is not None else ("" if reference.digest is not None else "latest")
    for family in families:
        if not any(_names(reference, pattern) for pattern in family.repositories):
            continue
        # A digest alone doesn't say which build it is.
        if (family.tags or family.without_tags) and not tag:
            return ImageFacts(kind=ImageKind.UNKNOWN, name=family.name)
        if family.tags and not any(_matches(pattern, tag) for pattern in family.tags):
            continue
        if any(_matches(pattern, tag) for pattern in family.without_tags):
            continue
        return ImageFacts(
            kind=family.kind,
            name=family.name,
            framework=family.framework,
            gpu_variant=None if family.gpu_variant is None else _variant(family.gpu_variant, tag),
            entrypoint=family.entrypoint,
        )
    return None


def _variant(pattern: str, tag: str) -> str:
    return pattern.replace("{tag}", tag).replace("{gpu_tag}", tag.replace("cpu", "gpu"))


def _names(reference: ImageReference, pattern: str) -> bool:
    """Whether a repository pattern means this image."""
    full = f"{reference.registry}/{reference.repository}"
    first, slash, _ = pattern.partition("/")
    if slash and ("." in first or first == "localhost" or "*" in first):
        return _matches(pattern, full)
    if not slash:
        official = any(_matches(f"{mirror}{pattern}", full) for mirror in _HUB_MIRRORS)
        return official or _matches(f"{DOCKER_HUB}/library/{pattern}", full)
    return _matches(f"{DOCKER_HUB}/{pattern}", full) or (
        reference.registry != DOCKER_HUB and _matches(pattern, "/".join(reference.repository.split("/")[-2:]))
    )


def _matches(pattern: str, text: str) -> bool:
    return matches_glob(pattern, text) is True


__all__ = ["Families", "ImageFacts", "ImageKind", "ImageReference", "ImageReferenceError", "classify", "parse"]

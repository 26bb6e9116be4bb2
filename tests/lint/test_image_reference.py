import pytest

from stoker.api.image import ImageKind, ImagePattern
from stoker.lint.kinds.image_reference import ImageReferenceError, classify, known_families, parse

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text, registry, repository, tag, digest",
    [
        ("ubuntu", "docker.io", "library/ubuntu", None, None),
        ("ubuntu:22.04", "docker.io", "library/ubuntu", "22.04", None),
        ("pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime", "docker.io", "pytorch/pytorch",
         "2.9.1-cuda12.8-cudnn9-runtime", None),
        ("docker.io/ubuntu", "docker.io", "library/ubuntu", None, None),
        ("index.docker.io/a/b:1", "docker.io", "a/b", "1", None),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io", "nvidia/pytorch", "25.01-py3", None),
        ("localhost/a", "localhost", "a", None, None),
        ("registry:5000/a/b/c:x", "registry:5000", "a/b/c", "x", None),
        ("[::1]:5000/a:b", "[::1]:5000", "a", "b", None),
        (f"a/b@{DIGEST}", "docker.io", "a/b", None, DIGEST),
        (f"a/b:1@{DIGEST}", "docker.io", "a/b", "1", DIGEST),
        ("a/b_c__d--e.f", "docker.io", "a/b_c__d--e.f", None, None),
    ],
)  # fmt: skip
def test_references_are_read(text: str, registry: str, repository: str, tag: str | None, digest: str | None) -> None:
    reference = parse(text)
    assert (reference.registry, reference.repository, reference.tag, reference.digest) == (
        registry,
        repository,
        tag,
        digest,
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "empty"),
        (" a", "blanks"),
        ("a b", "blanks"),
        ("a\n", "blanks"),
        ("https://a/b", "leave the scheme out: a/b"),
        ("a:", "ends in a colon"),
        ("a:-x", 'tag "-x"'),
        ("a:" + "x" * 129, "128"),
        ("Team", 'use "team"'),
        ("docker.io/Team/x", 'use "team"'),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("a..b/c", "registry"),
        ("a/b-", 'part "b-"'),
        ("a/.b", 'part ".b"'),
        ("a@sha256:12", "digest"),
        ("a@sha256:" + "G" * 64, "digest"),
        (":1", "no name"),
        ("registry.example/", "names the registry"),
        ("a/" + "b" * 300, "255"),
        ("0123456789abcdef" * 4, "image ID"),
        ("äpfel", "ASCII"),
        ("a\x00b", "ASCII"),
    ],
)
def test_what_is_no_reference_is_told_why(text: str, said: str) -> None:
    with pytest.raises(ImageReferenceError) as raised:
        parse(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text, floating",
    [("a", True), ("a:latest", True), ("a:1", False), (f"a@{DIGEST}", False), (f"a:latest@{DIGEST}", False)],
)
def test_a_floating_reference_may_change_under_the_job(text: str, floating: bool) -> None:
    assert parse(text).floating is floating


@pytest.mark.parametrize(
    "text, kind, framework",
    [
        ("pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime", ImageKind.FRAMEWORK, "PyTorch"),
        ("registry.example.com/mirror/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel", ImageKind.FRAMEWORK, "PyTorch"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", ImageKind.FRAMEWORK, "PyTorch"),
        ("nvcr.io/nvidia/tensorflow:25.01-tf2-py3", ImageKind.FRAMEWORK, "TensorFlow"),
        ("tensorflow/tensorflow:2.17.0-gpu", ImageKind.FRAMEWORK, "TensorFlow"),
        ("tensorflow/tensorflow:latest-gpu-jupyter", ImageKind.FRAMEWORK, "TensorFlow"),
        ("tensorflow/tensorflow:2.17.0", ImageKind.CPU_ONLY, "TensorFlow"),
        ("tensorflow/tensorflow", ImageKind.CPU_ONLY, "TensorFlow"),
        (f"tensorflow/tensorflow@{DIGEST}", ImageKind.UNKNOWN, None),
        ("huggingface/transformers-pytorch-gpu:4.41.2", ImageKind.FRAMEWORK, "PyTorch"),
        ("huggingface/transformers-pytorch-cpu:4.18", ImageKind.CPU_ONLY, "PyTorch"),
        ("registry.example.com/hub/pytorch:2.4.0-cpu", ImageKind.CPU_ONLY, "PyTorch"),
        ("registry.example.com/hub/pytorch:2.4.0-cuda", ImageKind.UNKNOWN, None),
        ("intel/intel-extension-for-pytorch:2.5.0-pip-base", ImageKind.CPU_ONLY, "PyTorch"),
        ("intel/intel-extension-for-pytorch:2.5.10-xpu", ImageKind.UNKNOWN, None),
        ("nvidia/cuda:12.6.0-devel-ubuntu22.04", ImageKind.CUDA, None),
        ("python:3.11-slim", ImageKind.GENERIC, None),
        ("mirror.gcr.io/library/python:3.11", ImageKind.GENERIC, None),
        ("registry.example.com/team/python:3.11", ImageKind.UNKNOWN, None),
        ("ubuntu:24.04", ImageKind.GENERIC, None),
        ("continuumio/miniconda3:24.1.2-0", ImageKind.GENERIC, None),
        ("apache/spark:3.5.1", ImageKind.NON_DL, None),
        ("rocker/r-ver:4.4", ImageKind.NON_DL, None),
        ("jupyter/scipy-notebook:latest", ImageKind.NON_DL, None),
        ("quay.io/jupyter/pytorch-notebook:cuda12-python-3.11", ImageKind.FRAMEWORK, None),
        ("postgres:16", ImageKind.NON_DL, None),
        ("vllm/vllm-openai:v0.6.0", ImageKind.SERVING, "PyTorch"),
        ("rayproject/ray:2.9.0-gpu", ImageKind.GENERIC, None),
        ("registry.example.com/team/train:1.4", ImageKind.UNKNOWN, None),
        ("someone/spark", ImageKind.UNKNOWN, None),
    ],
)
def test_known_families_are_told_and_unknown_ones_stay_unknown(
    text: str, kind: ImageKind, framework: str | None
) -> None:
    family = classify(parse(text))
    assert (family.kind, family.framework) == (kind, framework)


def test_a_cpu_build_names_its_gpu_variant() -> None:
    assert classify(parse("tensorflow/tensorflow:2.17.0")).gpu_variant == "tensorflow/tensorflow:2.17.0-gpu"
    assert classify(parse("rayproject/ray:2.9.0-py310-cpu")).gpu_variant == "rayproject/ray:2.9.0-py310-gpu"


def test_every_built_in_gpu_variant_is_an_image_with_a_tag() -> None:
    """Without one, following the advice would be the next finding: image-unpinned."""
    variants = {family.gpu_variant for family in known_families() if family.gpu_variant is not None}
    assert variants
    for variant in variants:
        assert not parse(variant.replace("{tag}", "1.0").replace("{gpu_tag}", "1.0-gpu")).floating, variant


def test_an_administrators_families_come_before_the_built_in_ones() -> None:
    ours = ImagePattern(
        name="Ours", kind=ImageKind.FRAMEWORK, repositories=("registry.example.com/*/train", "python"), tags=("1.*",)
    )
    assert classify(parse("registry.example.com/team/train:1.4"), [ours]).name == "Ours"
    assert classify(parse("registry.example.com/team/train:2.0"), [ours]).kind is ImageKind.UNKNOWN
    assert classify(parse("python:1.5"), [ours]).kind is ImageKind.FRAMEWORK
    assert classify(parse("python:3.11"), [ours]).kind is ImageKind.GENERIC

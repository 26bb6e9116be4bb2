"""The script downloads from a public site.

## What it flags

The rule flags

- `wget`, `curl` and the like with an address of a known public site of models and data sets, or of an object store
  that asks for no signature;
- `huggingface-cli download`, `hf download`, `kaggle` and `gdown`;
- `python -c` or a here-document that only fetches a repository of the Hugging Face Hub by its name
  (`snapshot_download("org/model")`), or a model of `torch.hub`.

## Why it costs GPU time

The GPUs wait for the Internet, in every pod and at every restart. If the site is down, the job fails.

## When it stays silent

- The host may belong to the company, or the address cannot be resolved.
- The file is small by its kind: scripts, texts, configuration (`.sh`, `.py`, `.txt`, `.json`, `.yaml`, ...).
- The job uses a mirror (`HF_ENDPOINT`), offline mode (`HF_HUB_OFFLINE=1`), or a cache or target on a volume that
  outlives the pod.
- The policy allows the site (`allowedSites`).
- The download runs in the background or in a branch, for instance after a test whether the file is there.
- The job has no GPUs.

## Change

Put the data into the cluster's storage once and mount it. Set `HF_HOME` to a cache on a volume.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, External Data Usage
- Hugging Face Hub documentation, "Environment variables": `HF_HOME`, `HF_HUB_OFFLINE`, `HF_ENDPOINT`
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from stoker.findings.finding import Problem
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.launch.plan import Command, Role
from stoker.lint.submission import Submission
from stoker.shell.model import Word

PUBLIC_SITES = (
    "ai.stanford.edu",
    "archive.org",
    "bitbucket.org",
    "cims.nyu.edu",
    "cocodataset.org",
    "commoncrawl.org",
    "cs.toronto.edu",
    "csail.mit.edu",
    "data.vision.ee.ethz.ch",
    "dl.fbaipublicfiles.com",
    "docs.google.com",
    "download.openmmlab.com",
    "download.pytorch.org",
    "drive.google.com",
    "dropbox.com",
    "eleuther.ai",
    "fast.ai",
    "figshare.com",
    "github.com",
    "githubusercontent.com",
    "gitlab.com",
    "gutenberg.org",
    "hf-mirror.com",
    "hf.co",
    "host.robots.ox.ac.uk",
    "huggingface.co",
    "image-net.org",
    "kaggle.com",
    "mattmahoney.net",
    "modelscope.cn",
    "ncbi.nlm.nih.gov",
    "ngc.nvidia.com",
    "nlp.stanford.edu",
    "openaipublic.azureedge.net",
    "openaipublic.blob.core.windows.net",
    "openslr.org",
    "opus.nlpl.eu",
    "rajpurkar.github.io",
    "rcsb.org",
    "robots.ox.ac.uk",
    "sourceforge.net",
    "statmt.org",
    "tfhub.dev",
    "the-eye.eu",
    "thor.robots.ox.ac.uk",
    "wikimedia.org",
    "wit3.fbk.eu",
    "yann.lecun.com",
    "zenodo.org",
)
"""Public sites of models and data sets; a host that ends in one is public."""

SMALL_FILES = frozenset(
    {
        ".cfg",
        ".css",
        ".csv",
        ".deb",
        ".env",
        ".html",
        ".ini",
        ".json",
        ".md",
        ".py",
        ".sh",
        ".toml",
        ".txt",
        ".xml",
        ".yaml",
    }
    | {".yml", ".whl", ".model"}
)
"""Endings of files that are small more often than not; big tables and texts come compressed."""

ANONYMOUS = frozenset({"wget", "curl", "aria2c", "axel"})
"""Tools that log in nowhere by themselves, as those of the clouds do: what they get without a key is public."""

HUB_TOOLS = frozenset(
    {"huggingface-cli", "hf", "huggingface_hub", "kaggle", "gdown", "git-lfs", "modelscope", "torch.hub"}
)
"""Tools whose downloads come from a public site unless they are told otherwise."""


def check(submission: Submission, *, allowed_sites: tuple[str, ...]) -> Iterator[Problem]:
    """Report the first download from a public site in the foreground."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    for command in plan.of(Role.DOWNLOAD):
        invocation = command.invocation
        if not invocation.certain or invocation.background or invocation.captured or invocation.rank_dependent:
            continue
        if _kept(command, submission):
            continue
        place = _public_address(command) or _hub(command)
        if place is None:
            continue
        word, site = place
        if any(site == allowed or site.endswith(f".{allowed}") for allowed in allowed_sites):
            continue
        waiting = f"{submission.gpus} GPUs wait" if submission.gpus > 1 else "the GPU waits"
        tool = command.tool or invocation.name or "The script"
        yield Problem(
            detail=f"{tool} downloads from {site} in every pod at every start, while {waiting}.",
            evidence=f"{word} is on a public site." if word is not None else f"{tool} takes it from {site}.",
            fix=_fix(command, submission),
            confidence=Confidence.LIKELY,
            location=submission.locate(invocation, () if word is None else (word,)),
            sources=(Source.SCRIPT,),
        )
        return


def _public_address(command: Command) -> tuple[Word, str] | None:
    """The first address on a public site of a file that may be big, and the site."""
    options = {word.text for word in command.invocation.argv}
    for word in command.urls:
        if not word.text:
            continue
        try:
            parts = urlsplit(word.text if "://" in word.text else f"https://{word.text}")
            host = (parts.hostname or "").lower()
        except ValueError:
            continue
        public = any(host == site or host.endswith(f".{site}") for site in PUBLIC_SITES) or (
            _is_object_store(host)
            and command.tool in ANONYMOUS
            and not parts.query
            and "--header" not in options
            and "-H" not in options
        )
        if public and PurePosixPath(parts.path).suffix.lower() not in SMALL_FILES and parts.path.strip("/"):
            return word, host
    return None


def _is_object_store(host: str) -> bool:
    """Whether a host serves objects of a public cloud: what it gives without a signature in the address is public."""
    labels = host.split(".")
    below = labels[:-2]
    match labels[-2:]:
        case ["amazonaws", "com"]:
            return any(label == "s3" or label.startswith("s3-") for label in below)
        case ["googleapis", "com"]:
            return below == ["storage"]
        case ["windows", "net"]:
            return below[-2:] == ["blob", "core"] and len(below) > 2
        case ["bcebos", "com"]:
            return bool(below)
        case ["aliyuncs", "com"]:
            return len(below) > 1 and below[-1].startswith("oss-")
        case _:
            return False


def _hub(command: Command) -> tuple[None, str] | None:
    """The site of a tool that downloads from one site only, or a public bucket."""
    if command.tool in {"aws", "s5cmd"} and "--no-sign-request" in {word.text for word in command.invocation.argv}:
        return None, "a public bucket"
    if command.tool not in HUB_TOOLS or command.tool == "git-lfs":
        return None
    environment = command.invocation.environment
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if name in environment and environment[name].text not in {"", "0"}:
            return None
    words = command.invocation.argv
    if any(word.text is None for word in words):
        return None
    if command.tool in {"huggingface-cli", "hf", "modelscope"} and "download" not in {word.text for word in words}:
        return None
    sites = {
        "kaggle": "kaggle.com",
        "gdown": "drive.google.com",
        "modelscope": "modelscope.cn",
        "torch.hub": "github.com",
    }
    return None, sites.get(command.tool, "huggingface.co")


def _kept(command: Command, submission: Submission) -> bool:
    """Whether the download goes, or may go, to a volume that outlives the pod, so that it is done once."""
    if not submission.pod.kept:
        return False
    environment = command.invocation.environment
    cached = [environment[name].text for name in ("HF_HOME", "HF_HUB_CACHE", "TORCH_HOME") if name in environment]
    words = [word.text for word in command.invocation.argv]
    texts = [text for text in (*cached, *words) if text is not None]
    targets = [text.partition("=")[2] or text for text in texts]
    on_volume = any(target.startswith(path) for target in targets for path in submission.pod.kept)
    absolute = any(target.startswith("/") for target in targets)
    return on_volume or not absolute or None in words


def _fix(command: Command, submission: Submission) -> str:
    if command.tool in {"huggingface-cli", "hf", "huggingface_hub"}:
        return "Download it once to a volume, mount that, and set HF_HOME to it and HF_HUB_OFFLINE=1."
    if command.tool == "torch.hub":
        return "Download it once to a volume, mount that, and set TORCH_HOME to it."
    volumes = f" ({submission.paths.volumes})" if submission.paths.volumes else ""
    return f"Copy it once to the cluster's storage, mount that{volumes}, and read it from there."


RULE: Rule[Submission] = Rule(
    id="A402",
    name="public-download",
    category=Category.EXTERNAL_DATA_USAGE,
    severity=Severity.WARNING,
    summary="The startup script downloads from a public site.",
    fix="Copy the data to the cluster's storage once.",
    check=check,
    init_containers=True,
    parameters=(
        Parameter(
            name="allowedSites",
            default=(),
            description="Public sites that are let pass, with all hosts below them: such as a mirror serves here.",
        ),
    ),
)

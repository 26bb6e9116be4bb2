"""Programs that serve a model to others. A service is idle at night and never reclaimed, so in doubt a program is one:
the worst of a mistake is that its job is only reported.
"""

from collections.abc import Iterator

from stoker.api.dljob import TRAINER
from stoker.api.image import ImageKind
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.launch.model import Command, Launcher
from stoker.lint.submission import Submission

LAUNCHERS = frozenset({Launcher.VLLM, Launcher.SGLANG, Launcher.LMDEPLOY, Launcher.TGI, Launcher.TRITON})
PROGRAMS = frozenset(
    {
        *("tritonserver", "torchserve", "tensorflow_model_server", "text-embeddings-router", "infinity_emb"),
        *("trtllm-serve", "mii-server", "aphrodite", "llama-server", "llamafile", "koboldcpp", "tabbyapi"),
        *("xinference", "xinference-local", "xinference-worker", "litserve", "mlserver"),
        *("uvicorn", "gunicorn", "hypercorn", "granian", "daphne", "waitress-serve", "streamlit", "gradio"),
    }
)
VERBS = frozenset(
    {
        *(("ollama", "serve"), ("bentoml", "serve"), ("mlflow", "models")),
        *(("serve", "run"), ("serve", "deploy"), ("mlc_llm", "serve"), ("fastapi", "run")),
    }
)
"""Tools by what they are told to do; Ray's `serve` among them."""
MODULES = frozenset(
    {"fastchat", "lightllm", "mii", "mlc_llm", "llama_cpp", "ts", "aphrodite", "xinference", "mlserver"}
)
"""Packages of which a module run by itself is a server: `python -m PACKAGE.anything`."""


def serves(submission: Submission) -> bool:
    """Whether it starts a server of models, or runs an image that is one as it stands."""
    plan = submission.plan
    if plan is None:
        return submission.image.family.kind is ImageKind.SERVING
    return any(launch.launcher in LAUNCHERS for launch in plan.launches) or any(map(_is_server, plan.commands))


def offers(spec: object) -> str | None:
    """What the trainer of a pod's spec declares that only a server needs: a port that others connect to, or a readiness
    probe, which says when they may. None for one that declares nothing.
    """
    containers = map(mapping, listed(mapping(spec).get("containers")))
    trainer = next((one for one in containers if one.get("name") == TRAINER), {})
    if trainer.get("readinessProbe"):
        return "a readiness probe"
    ports = [mapping(port).get("containerPort") for port in listed(trainer.get("ports"))]
    return f"port {ports[0]}" if ports else None


def _is_server(command: Command) -> bool:
    words = list(_words(command))
    name, verb = words[0] if words else "", words[1] if len(words) > 1 else ""
    if name.startswith(("python", "pypy")) and "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        return module in PROGRAMS or module.partition(".")[0] in MODULES
    return name in PROGRAMS or (name, verb) in VERBS


def _words(command: Command) -> Iterator[str]:
    """The command's name and what follows, as far as it is known."""
    yield command.invocation.name or ""
    yield from (word.text or "" for word in command.invocation.argv[1:])

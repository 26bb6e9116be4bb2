"""The story itself. Every claim is checked; the first that does not hold ends the demo with an error."""

import json
import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.shell import commands_folder, tools_folder
from e2e.cluster.waiting import slowness
from e2e.demo.narrator import Narrator
from e2e.demo.operators import operator_in
from e2e.demo.programs import PROGRAMS, TRAINING_AGAIN
from e2e.operator import CHART, NAMESPACE
from e2e.telemetry.stack import SIMULATION
from stoker.telemetry.usage import SETTLES

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SNOOZE_SECONDS = 15
"""On an idle machine: where everything takes longer, the snooze must as well, to be seen before it is over."""
RESOLUTION = timedelta(seconds=15)
"""Of a report on some hours, whose end is one of these steps."""
REPORT = ROOT / "build" / "demo-report.html"
"""Stays when the cluster is gone, to be opened in a browser."""


def tell(cluster: Cluster) -> None:
    """Tell it on a started cluster. Raises ExpectationError at the first claim that does not hold."""
    Story(cluster).tell()


class Story:
    """One telling."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator = operator_in(cluster)
        tools = tools_folder(cluster.folder, cluster.programs)
        path = f"{tools}:{commands_folder()}:{os.environ.get('PATH', '')}"
        self.narrator = Narrator({"KUBECONFIG": str(cluster.kubeconfig), "PATH": path})

    def tell(self) -> None:
        """All chapters in order."""
        self.cluster.apply(SIMULATION, HERE / "volumes.yaml")
        self.install()
        self.admission()
        self.submit()
        self.look()
        self.reclaim()
        self.resume()
        self.report()

    def install(self) -> None:
        """The chart, by helm, and the operator's two processes."""
        narrator = self.narrator
        narrator.chapter("A cluster with 48 GPUs, and Stoker in it")
        narrator.say(
            "The control plane is real (etcd, API server, controllers, scheduler, Prometheus); the GPUs and their "
            f"nodes are simulated. {self.operator.where}"
        )
        self.cluster.add_nodes(6, gpus=8)
        values = self.cluster.folder / "values.json"
        values.write_text(json.dumps(self.operator.values))
        self.operator.prepare()
        chart = CHART.relative_to(ROOT)
        narrator.run(
            f"helm install stoker {chart} --namespace {NAMESPACE} --create-namespace --values {values}",
            show=lambda text: "\n".join(line for line in text.splitlines() if line.startswith(("NAME:", "STATUS:"))),
        )
        self.operator.begin()
        narrator.run("kubectl get nodes --label-columns nvidia.com/gpu.product")

    def admission(self) -> None:
        """What is refused, what is warned of, and the same answer on a laptop."""
        narrator = self.narrator
        narrator.chapter("At kubectl apply: wrong jobs are refused, doubtful ones are admitted with a warning")
        refused = narrator.run("kubectl apply -f examples/wrong/launcher-too-few.yaml")
        narrator.expect(refused.code != 0 and "launcher-too-few" in refused.text, "8 GPUs with 4 processes: refused")
        narrator.expect("--nproc_per_node=8" in refused.text, "the refusal names the change")
        refused = narrator.run("kubectl apply -f examples/wrong/spark-on-gpus.yaml")
        narrator.expect(refused.code != 0 and "non-dl-command" in refused.text, "Spark on GPUs: refused")
        linted = narrator.run("stoker lint examples/wrong/launcher-too-few.yaml")
        narrator.expect(
            linted.code == 1 and "launcher-too-few" in linted.text, "`stoker lint` says the same, without a cluster"
        )

    def submit(self) -> None:
        """The jobs that are admitted; they have a past, which is written into Prometheus."""
        narrator = self.narrator
        narrator.chapter("Six jobs are admitted; they have been running for hours")
        self._simulate({name: program.manifest(name, datetime.now(UTC)) for name, program in PROGRAMS.items()})
        self._apply_good("torchrun-two-nodes", "accelerate")
        self._apply_wrong("mpirun-too-few", rule="launcher-too-few")
        self._apply_wrong("trailing-sleep", rule="trailing-sleep")
        small = {"notebook", "video-encoder"}
        others = set(PROGRAMS) - small - {"vit-large"}
        # The scheduler might give a small job some GPUs of the last node that is whole.
        narrator.wait("the jobs of whole nodes run", lambda: self._phases(others) == {"Running"}, timeout=30)
        self._apply_good("notebook")
        self._apply_wrong("latest-and-install", rule="heavy-install")
        narrator.wait("the small ones, too", lambda: self._phases(small) == {"Running"}, timeout=30)
        samples = self.cluster.backfill()
        narrator.say(
            f"Their past, {samples} samples of DCGM and cAdvisor metrics, is in Prometheus, which scrapes them live."
        )

    def _apply_good(self, *names: str) -> None:
        for name in names:
            applied = self.narrator.run(f"kubectl apply -f examples/{name}.yaml")
            complaint = applied.code != 0 or "Warning" in applied.text
            self.narrator.expect(not complaint, f"examples/{name}.yaml: no complaint")

    def _apply_wrong(self, name: str, *, rule: str) -> None:
        applied = self.narrator.run(f"kubectl apply -f examples/wrong/{name}.yaml")
        warned = applied.code == 0 and f"Warning: {rule}" in applied.text
        self.narrator.expect(warned, f"admitted, warned of by {rule}")

    def look(self) -> None:
        """Utilization and causes in the status."""
        narrator = self.narrator
        narrator.chapter("Who uses the GPUs, and why not")
        causes = {
            "gpt-small": "ImproperBatchSize",
            "ranker": "GPUOversubscription",
            "video-encoder": "LongLibraryInstallation",
            "notebook": "InteractiveJob",
            "gpt-unreleased": "UnreleasedJob",
        }
        for name, cause in causes.items():
            narrator.wait(f"{name}: {cause}", partial(self._shows, name, cause), timeout=40)
        narrator.wait(
            "llama-sft: above 85 %, no finding",
            lambda: self._status("llama-sft").get("utilization", {}).get("averagePercent", 0) > 85,
            timeout=40,
        )
        narrator.expect(not self._causes("llama-sft"), "and nothing is said of the healthy one")
        narrator.run("kubectl get dljobs")
        narrator.run("kubectl describe dljob gpt-small", show=_status_part)

    def reclaim(self) -> None:
        """Observed, warned, snoozed, warned again, suspended; and who waited gets the GPUs."""
        narrator = self.narrator
        narrator.chapter("GPUs that nobody uses are given back")
        narrator.run("kubectl apply -f examples/deepspeed-single-node.yaml")
        narrator.wait("vit-large waits: 3 GPUs are free, it needs 4", lambda: self._waits("vit-large"), timeout=20)
        narrator.wait(
            "a fresh install only observes: gpt-unreleased is Idle, and left alone",
            lambda: self._reclaim_state("gpt-unreleased") == "Idle",
            timeout=20,
        )
        applied = narrator.run(f"kubectl apply -f {(HERE / 'policy.yaml').relative_to(ROOT)}")
        narrator.expect(applied.code == 0 and "Warning" not in applied.text, "the policy is what the operator allows")
        narrator.wait("gpt-unreleased is warned", lambda: self._reclaim_state("gpt-unreleased") == "Warned", timeout=30)
        narrator.run(
            'kubectl get dljob gpt-unreleased -o jsonpath=\'{range .status.conditions[?(@.type=="ReclaimPending")]}'
            "{.reason}: {.message}{end}'"
        )
        narrator.say("Its owner still wants to look at something. (Hours, elsewhere; seconds here.)")
        snooze = f"{SNOOZE_SECONDS * slowness():.0f}s"
        narrator.run(f'stoker snooze gpt-unreleased --for {snooze} --reason "reading its last samples"')
        narrator.wait("it is snoozed, the warning is off", self._is_snoozed, timeout=20)
        narrator.run("stoker explain gpt-unreleased", show=_first_lines)
        narrator.wait("the snooze is over, gpt-unreleased is warned again", self._is_warned_after_snooze, timeout=60)
        narrator.say("A minute of grace again: whoever still needs it may use it. Nobody does.")
        narrator.wait(
            "gpt-unreleased is suspended, its pod has ended, its GPUs are free",
            lambda: self._reclaim_state("gpt-unreleased") == "Reclaimed",
            timeout=100,
        )
        narrator.wait(
            "vit-large got the GPUs", lambda: self._phases({"vit-large"}) <= {"Running", "Succeeded"}, timeout=20
        )
        narrator.run("kubectl get dljobs")
        narrator.run("kubectl events --for dljob/gpt-unreleased")
        others = set(PROGRAMS) - {"gpt-unreleased", "vit-large", "notebook"}
        narrator.expect(self._phases(others) == {"Running"}, "no job that uses its GPUs was touched")

    def resume(self) -> None:
        """One command brings the job back."""
        narrator = self.narrator
        narrator.chapter("And back with one command")
        self._simulate({"gpt-unreleased": TRAINING_AGAIN.manifest("gpt-unreleased", datetime.now(UTC))})
        narrator.wait("vit-large is done", lambda: self._phases({"vit-large"}) == {"Succeeded"}, timeout=30)
        narrator.run("stoker resume gpt-unreleased")
        narrator.wait("gpt-unreleased runs again", lambda: self._phases({"gpt-unreleased"}) == {"Running"}, timeout=40)
        narrator.run("kubectl get dljobs")

    def report(self) -> None:
        """What a platform team reads on Monday."""
        narrator = self.narrator
        narrator.chapter("Where the GPU-hours went")
        narrator.say(
            "From Prometheus alone, so that deleted jobs count too. The operator has been up for minutes; of the hours "
            "before, the GPUs' own series tell."
        )
        causes = {"ImproperBatchSize", "GPUOversubscription", "UnreleasedJob", "InteractiveJob"}
        narrator.wait(
            f"it ends {SETTLES.seconds} s before now, when all samples are in; the operator's first ones are that old",
            lambda: causes <= self._recorded(datetime.now(UTC) - SETTLES - RESOLUTION),
            timeout=SETTLES.seconds + 30,
        )
        REPORT.parent.mkdir(exist_ok=True)
        page = REPORT.relative_to(ROOT)
        told = narrator.run(f"stoker report --prometheus {self.cluster.prometheus_url} --since 4h --output {page}")
        narrator.expect(told.code == 0 and REPORT.exists(), f"the same as a page with pictures: {page}")
        narrator.expect(
            all(cause in told.text for cause in causes), "every job's cause has its GPU-hours, each counted once"
        )

    def _recorded(self, at: datetime) -> set[str]:
        """The causes whose GPU-hours Prometheus knew at that time."""
        series = self.cluster.query("stoker_dljob_finding_idle_gpu_hours", at=at)
        return {one["metric"]["category"] for one in series}

    def _simulate(self, programs: dict[str, dict[str, Any]]) -> None:
        self.cluster.apply(*programs.values())

    def _status(self, name: str) -> dict[str, Any]:
        path = f"/apis/stoker.dev/v1alpha1/namespaces/default/dljobs/{name}"
        status: dict[str, Any] = self.cluster.api("GET", path).get("status", {})
        return status

    def _phases(self, names: set[str]) -> set[str]:
        return {self._status(name).get("phase", "") for name in names}

    def _causes(self, name: str) -> set[str]:
        findings = self._status(name).get("findings", [])
        return {finding["category"] for finding in findings if "Metrics" in finding["sources"]}

    def _shows(self, name: str, cause: str) -> bool:
        return cause in self._causes(name)

    def _reclaim_state(self, name: str) -> str | None:
        state: str | None = self._status(name).get("reclaim", {}).get("state")
        return state

    def _is_snoozed(self) -> bool:
        record = self._status("gpt-unreleased").get("reclaim", {})
        return record.get("state") == "Snoozed" and "deadline" not in record

    def _is_warned_after_snooze(self) -> bool:
        record = self._status("gpt-unreleased").get("reclaim", {})
        until = datetime.fromisoformat(record["snoozedUntil"])
        return record.get("state") == "Warned" and datetime.fromisoformat(record["warnedAt"]) >= until

    def _waits(self, name: str) -> bool:
        conditions = self._status(name).get("conditions", [])
        return any(one["type"] == "PodsReady" and one["reason"] == "Unschedulable" for one in conditions)


def _first_lines(text: str) -> str:
    """What stands before the list of all conditions."""
    return text.partition("\n\n")[0]


def _status_part(text: str) -> str:
    """`kubectl describe` from its findings on: what stands above is the manifest."""
    start = text.find("Status:")
    return text[start:] if start >= 0 else text

"""The run of `stoker replay` that docs/replay.md shows.

python -m e2e.scenarios.replay.example FOLDER               writes replay.txt and replay.html
python -m e2e.browser FOLDER/replay.html docs/images/replay.png
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from e2e.scenarios.metrics.recorded import RecordedPrometheus
from e2e.scenarios.replay.cluster_past import PastJob, Share, always, pause, record, work_until
from stoker.cli import stoker

END = datetime(2026, 11, 21, 20, tzinfo=UTC)
POLICY = """
apiVersion: stoker.dev/v1alpha1
kind: UtilizationPolicy
metadata: {name: draft}
spec:
  namespaceSelector: {}
  reclaim: {mode: Suspend, maxGPUPercentPerWindow: 50, trainingWithoutVolume: true}
"""


def at_work_but(*rests: tuple[float, float]) -> Share:
    """At work but between these hours before the end."""
    return lambda age: 0.0 if any(last < age <= first for first, last in rests) else 90.0


JOBS = (
    PastJob(name="gpt-small", namespace="nlp", gpus=8, start=66, end=5.5, utilization=work_until(21)),
    PastJob(name="llama-sft", namespace="nlp", gpus=8, start=70, end=0, utilization=always(88.0)),
    PastJob(name="vit-large", namespace="vision", owner="kim", gpus=4, start=60, end=14, utilization=work_until(40)),
    PastJob(name="video-encoder", namespace="vision", owner="kim", gpus=2, start=30, end=0, utilization=pause(20, 19)),
    PastJob(
        name="ranker",
        namespace="search",
        owner="jonas",
        gpus=4,
        start=50,
        end=0,
        utilization=at_work_but((33, 28), (24, 23.2), (12, 10.5)),
    ),
    PastJob(name="queries", namespace="search", owner="jonas", gpus=2, start=22, end=0, utilization=pause(15, 13.9)),
    PastJob(
        name="notebook",
        namespace="speech",
        owner="ada",
        gpus=1,
        start=48,
        end=0,
        utilization=at_work_but((46, 30), (28, 6)),
        job_type="Interactive",
    ),
)


def main(folder: str) -> None:
    """Replay three days of seven jobs."""
    with tempfile.TemporaryDirectory() as scratch:
        policy = Path(scratch) / "draft.yaml"
        policy.write_text(POLICY)
        with RecordedPrometheus(Path(scratch), record(END, JOBS, hours=73).lines()) as prometheus:
            period = ["--since", "2026-11-18T20:00:00Z", "--to", END.isoformat()]
            options = ["replay", "--policy", str(policy), "--prometheus", prometheus.url, *period]
            for form, name in (("text", "replay.txt"), ("html", "replay.html")):
                target = Path(folder) / name
                argv = [*options, "--format", form, "--output", str(target)]
                result = CliRunner().invoke(stoker, argv, catch_exceptions=False)
                if result.exit_code != 0:
                    sys.exit(result.output)
                print(target)


if __name__ == "__main__":
    main(*sys.argv[1:])

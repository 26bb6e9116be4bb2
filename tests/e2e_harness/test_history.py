import io

from e2e.telemetry.history import write_open_metrics
from e2e.telemetry.metrics import DCGM_METRICS, PlayedPod, PodPlayer

NOW = 1795262400.0
POD = PlayedPod(
    uid="5b0e",
    namespace="nlp",
    name="bert-0",
    node="gpu-1",
    container="trainer",
    image="registry.example.com/bert:1",
    product="NVIDIA-H100-80GB-HBM3",
    gpus=(2, 3),
    rank=0,
    started=NOW - 600,
    scenario="[{for: 5m, util: 80}, {util: 0, memory: 10%}]",
)


def lines(*pods: PlayedPod) -> list[str]:
    file = io.StringIO()
    count = write_open_metrics(file, pods, until=NOW, step=30, interval=30)
    found = file.getvalue().splitlines()
    assert found.pop() == "# EOF"
    assert len(found) == count
    return found


def test_samples_go_from_the_start_to_now_in_even_steps() -> None:
    utils = [line for line in lines(POD) if line.startswith("DCGM_FI_DEV_GPU_UTIL{") and 'gpu="2"' in line]
    times = [float(line.split()[-1]) for line in utils]
    assert times == [NOW - 600 + 30 * number for number in range(21)]
    assert {line.split()[-2] for line in utils[-9:]} == {"0"}


def test_the_last_sample_is_what_the_exporter_shows_then() -> None:
    live = {(one.name, one.labels): one.value for one in PodPlayer(POD, POD.program()).dcgm(NOW, 30)}
    assert len(live) == 2 * len(DCGM_METRICS)
    for (name, labels), value in live.items():
        assert f'{name}{{{labels},job="dcgm-exporter"}} {value} {NOW:.3f}' in lines(POD)


def test_a_pod_that_has_not_started_has_no_past() -> None:
    waiting = PlayedPod(**{name: getattr(POD, name) for name in POD.__slots__} | {"started": None})
    assert lines(waiting) == []

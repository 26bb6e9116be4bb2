"""Amounts are kept, time is accounted for, and nothing exceeds what the hardware can do."""

import numpy as np
import pytest

from simulator_b.draft import Draft, Part
from simulator_b.track import GPU_FLOWS, GPU_LEVELS, POD_FLOWS, POD_LEVELS, Track
from stoker.findings.vocabulary import Category


def draft(shape: tuple[int, int] = (1, 2), card: str = "A100") -> Draft:
    return Draft(np.random.default_rng(5), [card], [shape])


def total(job: Draft, name: str, *, pod: int | None = None, gpu: int = 0) -> float:
    gpus, pods = job.blocks()
    if pod is not None:
        return float(Track.of(pods[pod], POD_FLOWS, POD_LEVELS).totals[name][-1])
    return float(Track.of(gpus[gpu], GPU_FLOWS, GPU_LEVELS).totals[name][-1])


@pytest.mark.parametrize("cycle", [0.02, 0.5, 7.0])
def test_a_loop_moves_what_its_cycles_move_whether_or_not_cycles_are_joined(cycle: float) -> None:
    job = draft()
    size = 1e7 * cycle

    job.loop(
        1_000.0,
        [
            Part(seconds=cycle / 2, gpu={"busy": 0.8}),
            Part(seconds=cycle / 2, spread=0.3, drift=0.2, moved={"rx": size, "net_rx": size}),
        ],
    )

    cycles = 1_000.0 / cycle
    assert total(job, "rx") == pytest.approx(cycles * size, rel=0.02)
    assert total(job, "net_rx", pod=0) == pytest.approx(cycles * size, rel=0.02)


@pytest.mark.parametrize("workers", [0, 4])
def test_a_loader_moves_one_batch_a_step(workers: int) -> None:
    job = draft()
    job.context = [True, True]

    job.fed(
        600.0,
        make=2.0,
        use=0.3,
        workers=workers,
        compute={"busy": 1.0},
        batch={"rx": 1e8, "disk_read": 3e6},
        spread=0.4,
        cores=0.5,
    )

    steps = total(job, "rx") / 1e8
    assert steps == pytest.approx(total(job, "disk_read", pod=0) / 3e6, rel=0.001)
    assert steps * 0.3 == pytest.approx(total(job, "busy"), rel=0.02)
    # half a core for 2 s each, beside what waits for the GPU or rests
    assert total(job, "cpu", pod=0) == pytest.approx(
        steps * 1.0 + job.spin * 2 * total(job, "busy") + 0.07 * job.life, rel=0.05
    )


def test_each_gpu_second_is_work_or_booked_on_one_cause() -> None:
    job = draft((2, 4))
    job.start(0.5)
    job.train(300, "transformer", active=[0, 1], rest_blame=Category.GPU_OVERSUBSCRIPTION)
    job.phase(100, pod={"cpu": 1.0}, blame=Category.MODEL_CHECKPOINTING)
    job.loop(
        200,
        [
            Part(seconds=1.0, gpu={"busy": 0.6}, blame=Category.IMPROPER_BATCH_SIZE),
            Part(seconds=1.0, blame=Category.DATA_EXCHANGE),
        ],
    )

    assert job.worked + sum(job.lost.values()) == pytest.approx(8 * job.life)
    assert job.lost[Category.GPU_OVERSUBSCRIPTION.value] == pytest.approx(6 * 300, rel=0.02)
    assert job.lost[Category.MODEL_CHECKPOINTING.value] == pytest.approx(8 * 100, rel=0.02)
    # 0.4 of the one half is lost by the batch size, all of the other half by the exchange
    ratio = job.lost[Category.DATA_EXCHANGE.value] / job.lost[Category.IMPROPER_BATCH_SIZE.value]
    assert ratio == pytest.approx(1 / 0.4, rel=0.1)


def test_a_card_at_rest_draws_less_without_a_process_and_at_work_never_more_than_its_limit() -> None:
    job = draft()
    job.phase(100)
    job.hold(0.5)
    job.phase(100)
    job.phase(100, gpu={"busy": 5.0, "sm": 5.0, "tensor": 5.0, "dram": 5.0, "rx": 1e15}, rough=0.0)
    watts = np.concatenate([np.asarray(block.column("watts")) for block in job.blocks()[0][0]])

    idle, context, full = watts[0], watts[len(watts) // 2], watts[-1]
    assert idle < context < full <= job.card.limit


@pytest.mark.parametrize("card, name", [("A100", "link"), ("L40S", "tx")])
def test_ranks_exchange_gradients_over_nvlink_or_else_over_pcie(card: str, name: str) -> None:
    together, single = draft(card=card), draft((1, 1), card)
    for job in (together, single):
        job.hold(0.5)
        job.phase(100, gpu=job.kernels("transformer"))

    assert total(together, name) > 0
    assert total(single, name) == 0

"""Lines as the tools themselves write them, and lines that only look like them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from stoker.telemetry.log_marks import (
    MAX_MARKS,
    MAX_TEXT,
    bounded,
    kind_of,
    log_marks,
    looks_secret,
    read_line,
    shown,
)
from stoker.telemetry.series import LogMark, MarkKind

START = datetime(2026, 11, 21, 5, 40, tzinfo=UTC)

SAID = {
    MarkKind.INSTALL: """
        Collecting torch==2.4.0
        Collecting numpy>=1.24 (from -r requirements.txt (line 3))
          Downloading torch-2.4.0-cp311-cp311-manylinux1_x86_64.whl (797.2 MB)
          Using cached numpy-2.1.0-cp311-cp311-manylinux_2_17_x86_64.whl (16.3 MB)
        Installing collected packages: nvidia-cublas-cu12, torch
        Successfully installed torch-2.4.0
        Requirement already satisfied: pip in /opt/conda/lib/python3.11/site-packages (24.0)
        Building wheels for collected packages: flash-attn
          Building wheel for flash-attn (setup.py): started
        Looking in indexes: https://pypi.org/simple
        Processing ./dist/apex-0.1-cp311-cp311-linux_x86_64.whl
        Resolved 43 packages in 1.20s
        Installed 43 packages in 310ms
        Collecting package metadata (repodata.json): done
        Solving environment: done
        Executing transaction: done
        Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
        Reading package lists...
        Selecting previously unselected package libaio1:amd64.
        Unpacking libaio1:amd64 (0.3.113-4) ...
        Setting up libaio1:amd64 (0.3.113-4) ...
        fetch https://dl-cdn.alpinelinux.org/alpine/v3.20/main/x86_64/APKINDEX.tar.gz
        (1/12) Installing ca-certificates (20240705-r0)
        Cloning into 'apex'...
        remote: Enumerating objects: 12080, done.
        Receiving objects:  45% (5436/12080), 7.12 MiB | 3.50 MiB/s
        running build_ext
        [3/8] /usr/local/cuda/bin/nvcc --generate-dependencies-with-compile -o kernel.o
    """,
    MarkKind.DOWNLOAD: """
        model-00001-of-00004.safetensors:  12%|#2        | 612M/4.98G [00:10<01:11, 61.2MB/s]
        Downloading shards:  25%|##5       | 1/4 [00:41<02:05, 41.80s/it]
        Fetching 14 files:  29%|##8       | 4/14 [00:02<00:05,  1.80it/s]
        Downloading data: 100%|##########| 84.1M/84.1M [00:02<00:00, 35.5MB/s]
        Downloading and preparing dataset imagenet/plain_text to /data/cache/huggingface/datasets...
        Downloading: "https://download.pytorch.org/models/resnet50-0676ba61.pth" to /data/cache/torch/resnet50.pth
        --2026-11-21 05:41:10--  https://data.example.com/train.tar
        Saving to: 'train.tar'
        train.tar            34%[=====>              ] 340.00M  98.2MB/s    eta 7s
        2026-11-21 05:41:20 (98.2 MB/s) - 'train.tar' saved [1048576000/1048576000]
          % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current
         34  996M   34  340M    0     0  98.2M      0  0:00:10  0:00:03  0:00:07 98.3M
        download: s3://corpus/train/shard-000.tar to data/shard-000.tar
        Completed 256.0 MiB/9.8 GiB (312.4 MiB/s) with 12 file(s) remaining
        Copying gs://corpus/shard-000.tar...
    """,
    MarkKind.EPOCH: """
        Epoch 3/90
        Epoch: [3][  40/5005]  Time  0.231 ( 0.240)  Data  0.002 ( 0.004)  Loss 5.1133e+00 (5.6340e+00)
        Epoch 0:  43%|####3     | 430/1000 [01:12<01:36,  5.92it/s, train_loss=2.31]
        [2026-11-21 05:52:00,123] [INFO] [trainer.py:88] epoch=2 lr=0.001
         iteration     1200/  500000 | consumed samples:   614400 | elapsed time per iteration (ms): 812 | lm loss: 3
        {'loss': 2.3312, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.12}
          7%|7         | 500/7000 [05:12<1:07:41,  1.60it/s]
        train: 12%|#2        | 50/400 [00:31<03:40,  1.59it/s]
        step 1200: train loss 2.9012, lr 0.0006
        iter 4200: loss 3.1820, time 241.91ms, mfu 38.20%
        [rank0]: global_step=300, loss=1.92
        1/469 [..............................] - ETA: 3:15 - loss: 2.3
    """,
    MarkKind.EVALUATION: """
        ***** Running Evaluation *****
        Evaluating:  12%|#2        | 12/100 [00:03<00:22,  3.90it/s]
        Validation DataLoader 0:  50%|#####     | 25/50 [00:02<00:02, 11.8it/s]
        {'eval_loss': 1.92, 'eval_runtime': 31.2, 'epoch': 1.0}
         validation loss at iteration 1000 | lm loss value: 3.1E+00 | lm loss PPL: 2.2E+01 |
        INFO:__main__:Starting evaluation
        Test: [  0/391]  Time  2.810 ( 2.810)  Loss 6.6e-01 (6.6e-01)
    """,
    MarkKind.CHECKPOINT: """
        Saving model checkpoint to /ckpt/checkpoint-500
        Model weights saved in /ckpt/checkpoint-500/model.safetensors
        11/21/2026 05:52:00 - INFO - accelerate.accelerator - Saving current state to /ckpt/step_500
        [2026-11-21 05:52:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Saving /ckpt/step5/zero_0.pt...
        [2026-11-21 05:52:09,456] [INFO] [engine.py:33:commit] [Torch] Checkpoint step5 is ready now!
        saving checkpoint at iteration    1000 to /ckpt in torch_dist format
          successfully saved checkpoint from iteration    1000 to /ckpt [ t 1/1, p 1/1 ]
        Epoch 3, global step 400: 'val_loss' reached 0.21 (best 0.21), saving model to '/ckpt/epoch=3.ckpt' as top 1
        => saved checkpoint 'checkpoint_0003.pth.tar' (epoch 4)
        Saved /ckpt/model_0005000.pth
        Writing checkpoint for step 5000
    """,
    MarkKind.UPLOAD: """
        upload: out/step-500.bin to s3://results/run-17/step-500.bin
        Copying file://out/step-500.bin [Content-Type=application/octet-stream]...
        Uploading artifacts to the tracking server
        Upload 3 LFS files:  33%|###3      | 1/3 [00:09<00:19,  9.6s/it]
        wandb: Synced 5 W&B file(s), 0 media file(s), 2 artifact file(s) and 0 other file(s)
        wandb: Uploading summary, config.yaml
    """,
    MarkKind.COLLECTIVE_TIMEOUT: """
        [rank3]:[E1121 05:58:00.123 ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout: Work
        WorkNCCL(SeqNum=1203, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 ms before it timed out.
        Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, ...
        [Rank 0] NCCL watchdog thread terminated with exception: NCCL error
        RuntimeError: Timed out waiting 1800000ms for recv operation to complete
    """,
}
SILENT = """
    loading checkpoint from /ckpt at iteration 1000
    No checkpoint was found in /ckpt
    Resuming from /ckpt/checkpoint-500
    Namespace(epochs=90, batch_size=32, lr=0.1)
    Num Epochs = 3
    NCCL_TIMEOUT=1800
    NCCL version 2.20.5+cuda12.4
    Collecting samples from 8 environments
    Collecting environment information...
    Processing record 1200
    Map:  12%|#2        | 120/1000 [00:01<00:07, 121.2 examples/s]
    Tokenizing: 100%|##########| 1000/1000 [00:07<00:00, 131it/s]
    Using device cuda:0
    The model will not be evaluated
    world_size=16
    Setting up the optimizer
    Hello
"""


def lines(text: str) -> list[str]:
    return [line.strip("\n")[8:] for line in text.strip("\n").splitlines() if line.strip()]


@pytest.mark.parametrize("kind, line", [(kind, line) for kind, text in SAID.items() for line in lines(text)])
def test_a_tools_own_words_are_a_mark(kind: MarkKind, line: str) -> None:
    assert kind_of(shown(line)) is kind


@pytest.mark.parametrize("line", [line.strip() for line in SILENT.strip().splitlines()])
def test_other_words_are_none(line: str) -> None:
    assert kind_of(shown(line)) is None


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1: password=hunter2",
        "Cloning into 'x'... https://user:s3cr3t@git.example.com/x.git",
        "Looking in indexes: https://robot@pypi.example.com/simple",
        "Uploading files with token=abcdef",
        "Uploading files, Authorization: Basic abc",
        "saving checkpoint to s3 as AKIAIOSFODNN7EXAMPLE",
        "Epoch 1 hf_abcdefghijklmnop",
        "Epoch 1 ghp_abcdefghijklmnopqrstuvwxyz",
        "Downloading: \"https://bucket.s3.example.com/m.pth?X-Amz-Signature=abc\"",
        "Epoch 1 eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "Epoch 1 wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    ],
)  # fmt: skip
def test_what_looks_like_a_credential_is_dropped(line: str) -> None:
    assert looks_secret(line)
    assert list(log_marks([f"2026-11-21T05:40:00Z {line}"], "bert-0")) == []


def test_ordinary_lines_are_no_secrets() -> None:
    known = [line for text in SAID.values() for line in lines(text)]
    assert [line for line in known if looks_secret(shown(line))] == []


def test_a_line_keeps_its_time_and_at_most_its_first_characters() -> None:
    written = "2026-11-21T05:40:00.123456789+01:00 Epoch 1/90 " + "and so on " * 100
    (mark,) = log_marks([written], "bert-0")
    assert mark.time == datetime(2026, 11, 21, 4, 40, 0, 123456, tzinfo=UTC)
    assert (mark.pod, mark.kind, len(mark.text)) == ("bert-0", MarkKind.EPOCH, MAX_TEXT)


@pytest.mark.parametrize(
    "line",
    ["", "Epoch 1/90", "2026-11-21 Epoch 1/90", "2026-13-21T05:40:00Z Epoch 1/90", "2026-11-21T05:40:00 Epoch 1"],
)
def test_a_line_without_a_time_is_no_mark(line: str) -> None:
    assert read_line(line) is None
    assert list(log_marks([line], "bert-0")) == []


def test_of_a_progress_bar_the_last_state_counts_without_its_colours() -> None:
    assert shown("\x1b[32m 10%|#\x1b[0m\r 20%|##\r 30%|###\n") == "30%|###"
    assert shown("a\x07b\n") == "a b"


def test_many_marks_of_one_kind_are_thinned_but_other_kinds_are_not() -> None:
    def stamp(seconds: float) -> str:
        return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    steps = [f"{stamp(second)} step {second}: loss 2.0" for second in range(120)]
    steps.insert(60, f"{stamp(59)} Saving model checkpoint to /ckpt")
    kinds = [mark.kind for mark in log_marks(steps, "bert-0")]
    assert kinds.count(MarkKind.EPOCH) == 8
    assert kinds.count(MarkKind.CHECKPOINT) == 1


def test_of_too_many_marks_the_first_and_the_last_are_kept() -> None:
    def mark(pod: str, number: int) -> LogMark:
        return LogMark(time=START + timedelta(minutes=number), pod=pod, kind=MarkKind.EPOCH, text=f"Epoch {number}")

    kept = bounded([*(mark("a", number) for number in reversed(range(2000))), mark("b", 3), mark("b", 3)])
    own = [one for one in kept if one.pod == "a"]
    assert len(own) == MAX_MARKS
    assert (own[0].text, own[-1].text) == ("Epoch 0", "Epoch 1999")
    assert sum(one.pod == "b" for one in kept) == 1
    assert [one.time for one in kept] == sorted(one.time for one in kept)


@pytest.mark.parametrize(
    "line",
    ["Epoch " * 5000, "a" * 50_000, "[" * 3000, "(" * 3000, "1" * 3000, "- " * 3000, "saving " * 2000, "=" * 9000],
)
def test_no_line_takes_long(line: str) -> None:
    """A pattern that looks again and again at the same text would take minutes here, not a moment."""
    text = shown(line)
    kind_of(text)
    looks_secret(text)
    assert re.search("[^ ]", text)

"""The worked examples of "An Empirical Study on Low GPU Utilization of Deep Learning Jobs" (ICSE 2024) as they are
submitted: each script gets the study's own category before it has run.
"""

import pytest

from stoker.api.dljob import DLJob
from stoker.findings.vocabulary import Category, ReviewOutcome
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN
from tests.diagnosis.recording import START

EXAMPLES = [
    pytest.param(4, "/usr/sbin/sshd -D", Category.INTERACTIVE_JOB, "Interactive", id="4.1 SSH on four GPUs"),
    pytest.param(4, "jupyter notebook --no-browser", Category.INTERACTIVE_JOB, "Interactive", id="4.1 a notebook"),
    pytest.param(
        8,
        "python -m torch.distributed.launch --nproc_per_node 4 train.py",
        Category.GPU_OVERSUBSCRIPTION,
        "--nproc_per_node 8",
        id="4.1 nproc_per_node 4 on eight GPUs",
    ),
    pytest.param(
        8,
        "torchrun --nproc_per_node 8 train.py\nsleep 600",
        Category.UNRELEASED_JOB,
        "Remove the sleep",
        id="4.1 ten extra minutes of sleep",
    ),
    pytest.param(2, "spark-submit analysis.py", Category.NON_DL_JOB, "spec.gpusPerNode: 0", id="4.1 Spark"),
    pytest.param(
        1,
        "cp -r /mnt/share/site-packages /opt/libs\npython train.py",
        Category.LONG_LIBRARY_INSTALLATION,
        "spec.image",
        id="4.4 a folder of libraries from a share",
    ),
    pytest.param(
        1,
        'export CUDA_VISIBLE_DEVICES=""\npython train.py',
        Category.API_MISUSE,
        "CUDA_VISIBLE_DEVICES",
        id="4.4 an empty CUDA_VISIBLE_DEVICES",
    ),
]


@pytest.mark.parametrize("gpus, script, category, change", EXAMPLES)
def test_the_script_gets_the_studys_category_and_the_change(
    gpus: int, script: str, category: Category, change: str
) -> None:
    spec = {"gpusPerNode": gpus, "image": "registry.example.com/nlp/bert:1", "script": script}
    job = DLJob.model_validate({"metadata": {"name": "bert", "namespace": "nlp"}, "spec": spec})
    verdict = review(job, BUILT_IN, now=START)
    (finding,) = (*verdict.denied, *verdict.warned, *verdict.audited)
    assert finding.category is category
    assert change in finding.fix


def test_figure_6_is_allowed_for_whether_the_program_uses_both_devices_only_its_run_tells() -> None:
    spec = {
        "gpusPerNode": 2,
        "image": "registry.example.com/nlp/bert:1",
        "script": "CUDA_VISIBLE_DEVICES=0,1 python -u train.py",
    }
    job = DLJob.model_validate({"metadata": {"name": "bert", "namespace": "nlp"}, "spec": spec})
    assert review(job, BUILT_IN, now=START).outcome is ReviewOutcome.ALLOW

"""What a launch does is told by whole words: of its program's name, and of what it is told to do."""

import pytest

from stoker.lint.launch.names import has_word, words_of
from stoker.lint.launch.plan import plan
from stoker.lint.launch.work import Work, work_of
from stoker.shell.script import read_script

TRAINING, INDEPENDENT = Work.TRAINING, Work.INDEPENDENT


@pytest.mark.parametrize(
    "name, words",
    [
        ("tools/runEval_v2.py", ("run", "eval", "v")),
        ("finetune.py", ("finetune",)),
        ("fine-tune_lora.py", ("finetune", "lora")),
        ("pre_train.py", ("pretrain",)),
        ("axolotl.cli.inference", ("inference",)),
        ("HTTPServer.py", ("http", "server")),
        ("123", ()),
        ("", ()),
    ],
)
def test_a_name_is_cut_into_whole_words(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "command, work",
    [
        ("train.py", TRAINING),
        ("finetune.py --eval-interval 500", TRAINING),
        ("fine_tune.py --lora_rank 8", TRAINING),
        ("research.py", None),
        ("main.py --batch-size 8", None),
        ("train.py --test_batch_size 64 --eval_steps=100", TRAINING),
        ("train.py --do_train --do_eval", TRAINING),
        ("run_glue.py --do_train --do_predict", None),
        ("train_embeddings.py", TRAINING),
        ("train.py --config configs/sft.yaml", TRAINING),
        ("tune.py", INDEPENDENT),
        ("test_train.py", INDEPENDENT),
        ("run_eval.py", INDEPENDENT),
        ("-m lm_eval --model hf", INDEPENDENT),
        ("-m pkg.evaluate.main", INDEPENDENT),
        ("scripts/inference/run.py", INDEPENDENT),
        ("main.py evaluate", INDEPENDENT),
        ("main.py --mode=test", INDEPENDENT),
        ("main.py --task predict", INDEPENDENT),
        ("train.py --eval-only", INDEPENDENT),
        ("train.py --eval", INDEPENDENT),
        ("train.py --eval=false", TRAINING),
        ("main.py --cfg configs/eval_coco.yaml", INDEPENDENT),
        ("train.py model.test=true", TRAINING),
    ],
)
def test_the_work_of_a_launch(command: str, work: Work | None) -> None:
    (launch,) = plan(read_script(f"torchrun {command}\n"), nodes=2, gpus_per_node=8).launches
    assert work_of(launch) is work


@pytest.mark.parametrize(
    "text, found",
    [("checkpoints/latest.pt", False), ("tests/run.py", True), ("--do-test", True), ("contest.py", False), ("", False)],
)
def test_a_stem_is_found_where_a_word_begins(text: str, found: bool) -> None:
    assert has_word(text, "test") is found

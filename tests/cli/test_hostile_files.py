"""Files made to hold `stoker lint`: it ends, with and without changes."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.cli import stoker

HEAD = (
    "apiVersion: stoker.dev/v1alpha1\nkind: DLJob\nmetadata: {name: a}\n"
    "spec:\n  image: r.example/x:1\n  gpusPerNode: 8\n"
)
SETTING = "  - {name: CUDA_LAUNCH_BLOCKING, value: '1'}\n"
FILES = {
    "object store": f"{HEAD}  script: wget https://s3{'-a' * 60}.amazonaws.comx/data.tar && torchrun t.py\n",
    "empty lines of Windows": (
        f"{HEAD}  script: python t.py\n  env:\n  - {{name: A, value: b}}\n{chr(10) * 20_000}{SETTING}"
    ).replace("\n", "\r\n"),
    "blanks before a setting": f"{HEAD}  script: |\n    {' ' * 60_000}CUDA_LAUNCH_BLOCKING=1 python t.py\n",
    "brackets": f"{HEAD}  script: python t.py\n  env:\n  - {{name: '{'[' * 60_000}', value: b}}\n{SETTING}",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_lint_ends(text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text, newline="")
    begin = time.thread_time()
    result = CliRunner().invoke(stoker, ["lint", "--fix", "--unsafe-fixes", "--diff", str(file)])
    assert result.exit_code in (0, 1, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert time.thread_time() - begin < 60  # far above what any of them takes

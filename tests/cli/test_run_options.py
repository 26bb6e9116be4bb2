"""`stoker run` refuses options that would not do what they say, before it starts anything."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.cli.run import run

ADMISSION = ["admission", "--certificate-folder=missing"]
CONTROLLER = ["controller", "--prometheus-url=http://prometheus:9090"]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([*ADMISSION, "--note-sessions"], "--note-sessions needs --client-ca-file"),
        ([*ADMISSION, "--client-name=kube-apiserver"], "--client-name needs --client-ca-file"),
        ([*ADMISSION, "--minimum-warning-grace=59s"], "59s is less than 1m"),
        ([*CONTROLLER, "--minimum-warning-grace=10s"], "10s is less than 1m"),
        ([*CONTROLLER, "--scan-interval=0s"], "must be longer than 0s"),
        ([*ADMISSION, "--client-ca-file=missing.crt"], "No such file"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(run, arguments)
    assert answer.exit_code != 0
    assert said in answer.output
    assert "Traceback" not in answer.output

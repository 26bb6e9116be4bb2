"""Who collects the audit need not tell it from text."""

import subprocess
import sys

SCRIPT = """
import logging
from stoker.cli.run import run
run.callback(log_level="error")
logging.getLogger("stoker.controller").error("text")
logging.getLogger("stoker.audit").info("%s", '{"event": "Reclaimed"}')
"""


HOSTILE = """
import logging
from stoker.cli.run import run
run.callback(log_level="error")
try:
    raise ValueError("two" + chr(10) + "lines" + chr(27) + "[2J")
except ValueError:
    logging.getLogger("stoker").exception("a job named %s", "x" + chr(27) + "[31m" + chr(10) + "ERROR forged: line")
"""


def test_no_text_of_a_job_reaches_the_terminal_as_a_command_or_looks_like_a_line_of_the_log() -> None:
    lines = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=True).stderr
    assert lines.replace("\n", "").isprintable()
    assert "a job named x [31m ERROR forged: line" in lines.splitlines()[0]
    assert lines.splitlines()[1] == "Traceback (most recent call last):"


def test_the_audit_alone_is_on_standard_output_at_every_log_level() -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert answer.stdout == '{"event": "Reclaimed"}\n'
    assert "ERROR stoker.controller: text" in answer.stderr

"""What the processes write: the audit on standard output, the log as text or JSON on standard error."""

import json
import subprocess
import sys
from datetime import datetime

SCRIPT = """
FORMAT = "text"
import logging
from stoker.cli.run import run
run.callback(log_level="error", log_format=FORMAT)
logging.getLogger("stoker.controller").error("text")
logging.getLogger("stoker.audit").info("%s", '{"event": "Reclaimed"}')
"""


HOSTILE = """
import logging
from stoker.cli.run import run
run.callback(log_level="error", log_format=FORMAT)
try:
    raise ValueError("two" + chr(10) + "lines" + chr(27) + "[2J")
except ValueError:
    logging.getLogger("stoker").exception("a job named %s", "x" + chr(27) + "[31m" + chr(10) + "ERROR forged: line")
"""


def test_no_text_of_a_job_reaches_the_terminal_as_a_command_or_looks_like_a_line_of_the_log() -> None:
    script = f"FORMAT = 'text'\n{HOSTILE}"
    lines = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    assert lines.replace("\n", "").isprintable()
    assert "a job named x [31m ERROR forged: line" in lines.splitlines()[0]
    assert lines.splitlines()[1] == "Traceback (most recent call last):"


def test_the_audit_alone_is_on_standard_output_at_every_log_level() -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert answer.stdout == '{"event": "Reclaimed"}\n'
    assert "ERROR stoker.controller: text" in answer.stderr


ABOUT = """
FORMAT = "json"
import logging
from stoker.cli.run import run
from stoker.controller.decision import about
from datetime import datetime, UTC
run.callback(log_level="info", log_format=FORMAT)
warned_at = datetime(2026, 11, 21, 15, 0, 1, tzinfo=UTC)
logging.getLogger("stoker.controller").info("reclaimed", extra=about("nlp", "gpt", "u-1", warned_at))
"""


def test_a_line_of_json_has_the_job_and_the_decision() -> None:
    [line] = subprocess.run(
        [sys.executable, "-c", ABOUT], capture_output=True, text=True, check=True
    ).stderr.splitlines()
    fields = json.loads(line)
    assert datetime.fromisoformat(fields.pop("time")).tzinfo is not None
    assert fields == {
        "level": "INFO",
        "logger": "stoker.controller",
        "message": "reclaimed",
        "namespace": "nlp",
        "job": "gpt",
        "uid": "u-1",
        "decision": "u-1.2026-11-21T15:00:01Z",
    }


def test_what_users_write_stays_within_its_line_of_json() -> None:
    script = f"FORMAT = 'json'\n{HOSTILE}"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    [line] = output.splitlines()
    assert line.isprintable()
    assert line.isascii()
    fields = json.loads(line)
    assert fields["message"] == "a job named x\x1b[31m\nERROR forged: line"
    assert "ValueError" in fields["traceback"]

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


def test_the_audit_alone_is_on_standard_output_at_every_log_level() -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert answer.stdout == '{"event": "Reclaimed"}\n'
    assert "ERROR stoker.controller: text" in answer.stderr

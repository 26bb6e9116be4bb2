"""The README's first example is refused in the words that the README shows."""

import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from stoker.admission import review
from stoker.admission.messages import denial
from stoker.models.dljob import DLJob
from stoker.models.policy import BUILT_IN

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_refusal_is_the_real_one() -> None:
    text = README.read_text()
    [manifest] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    shown = re.search(r"\$ kubectl apply -f bert\.yaml\nThe DLJob \"bert\" is invalid: (.*?)```", text, re.DOTALL)
    assert shown is not None
    job = DLJob.model_validate(yaml.safe_load(manifest))
    message = denial(job.name, review(job, BUILT_IN, now=datetime.now(UTC))).message
    assert message.split(" is invalid: ", 1)[1].strip() == shown[1].strip()

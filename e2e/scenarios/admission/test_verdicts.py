"""What users see: refusals and warnings as kubectl prints them."""

import re

import pytest

from e2e.cluster.api import ApiError
from e2e.operator import ADMISSION, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, UNPINNED, Submitter, dljob

pytestmark = pytest.mark.e2e


def test_a_refusal_names_the_line_the_contradiction_and_the_change(submitter: Submitter) -> None:
    script = "set -e\ncd /workspace\ntorchrun --standalone --nproc_per_node=4 train.py\n"
    refused = submitter.create(dljob("bert", script))
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr == (
        'The DLJob "bert" is invalid: spec.script: line 3: "--nproc_per_node=4" starts 4 processes on 8 GPUs'
        " (launcher-too-few).\n"
        "    torchrun --standalone --nproc_per_node=4 train.py\n"
        "                          ^^^^^^^^^^^^^^^^^^\n"
        "    torchrun --standalone --nproc_per_node=8 train.py\n"
        "  Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4.\n"
    )
    assert submitter.kubectl("get", "dljobs", "-o", "name").stdout == ""


def test_the_refusal_has_the_form_of_the_api_servers_own(submitter: Submitter) -> None:
    """Reason, code and causes for programs; all of it in the message for whoever shows nothing else."""
    with pytest.raises(ApiError) as refusal:
        submitter.cluster.api(
            "POST",
            f"/apis/stoker.dev/v1alpha1/namespaces/{submitter.namespace}/dljobs",
            dljob("bert", TOO_FEW),
        )
    assert (refusal.value.status, refusal.value.reason) == (422, "Invalid")
    details = refusal.value.body["details"]
    assert {key: details[key] for key in ("group", "kind", "name")} == {
        "group": "stoker.dev",
        "kind": "DLJob",
        "name": "bert",
    }
    (cause,) = details["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "spec.script")
    assert cause["message"] in refusal.value.message


def test_several_causes_are_printed_as_a_list(submitter: Submitter) -> None:
    refused = submitter.create(dljob("bert", TOO_FEW, image="not an image"))
    assert refused.returncode == 1
    assert refused.stderr.startswith('The DLJob "bert" is invalid: \n')
    assert sorted(re.findall(r"^\* (\S+): ", refused.stderr, re.MULTILINE)) == ["spec.image", "spec.script"]


def test_warnings_are_printed_and_the_job_is_created(submitter: Submitter) -> None:
    created = submitter.create(dljob("bert", **UNPINNED))
    assert created.returncode == 0
    assert created.stdout == "dljob.stoker.dev/bert created\n"
    (warning,) = created.stderr.splitlines()
    assert warning.startswith("Warning: image-unpinned: spec.image")


def test_a_right_job_is_created_without_a_word(submitter: Submitter) -> None:
    created = submitter.create(dljob("bert"))
    assert (created.returncode, created.stderr) == (0, "")


def test_a_dry_run_is_judged_as_well(submitter: Submitter) -> None:
    assert submitter.refused(dljob("bert", TOO_FEW))
    assert not submitter.refused(dljob("bert"))


def test_a_generated_name_is_judged_as_well(submitter: Submitter) -> None:
    job = dljob("", TOO_FEW)
    job["metadata"] = {"generateName": "bert-"}
    refused = submitter.create(job)
    assert refused.returncode == 1
    assert "launcher-too-few" in refused.stderr
    job["spec"]["script"] = "torchrun train.py\n"
    assert submitter.create(job).returncode == 0


def test_the_largest_script_is_judged_in_time(submitter: Submitter) -> None:
    filler = 'echo "step $STEP of $STEPS" >> /workspace/log\n' * 1400
    script = filler[: 65_536 - len(TOO_FEW) - 1].rpartition("\n")[0] + "\n" + TOO_FEW
    refused = submitter.create(dljob("bert", script))
    assert refused.returncode == 1
    assert "launcher-too-few" in refused.stderr


def test_the_process_may_do_no_more_than_the_chart_grants_and_needs_no_more(operator: Operator) -> None:
    log = operator.cluster.log(ADMISSION)
    assert "Traceback" not in log
    assert not re.search(r"forbidden|not enough permissions", log, re.IGNORECASE)
    kubeconfig = operator.cluster.service_account_kubeconfig("stoker-system", ADMISSION)
    for verb, resource in (
        ("create", "jobs"),
        ("update", "dljobs"),
        ("get", "secrets"),
        ("list", "pods"),
        ("update", "validatingwebhookconfigurations"),
    ):
        answer = operator.cluster.run_kubectl("auth", "can-i", verb, resource, "-A", kubeconfig=kubeconfig)
        assert answer.stdout.strip() == "no", f"{verb} {resource}"

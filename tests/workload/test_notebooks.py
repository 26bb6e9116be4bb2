"""Where notebook servers are thought to answer: by the script, and by the owner's annotation."""

from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.workload import program_facts
from stoker.workload.notebooks import MAX_BASE, Notebook, literal_token, named
from tests.workload.building import dljob_object


def started(script: str, **variables: str) -> tuple[Notebook, ...]:
    """What a job's script starts, with variables from spec.env."""
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return program_facts(DLJob.model_validate(dljob_object(script=script, env=env))).notebooks


@pytest.mark.parametrize(
    "script, found",
    [
        ("jupyter lab --ip=0.0.0.0", Notebook()),
        ("pip install x\nexec jupyter-lab --port 9999 --allow-root", Notebook(port=9999)),
        ("python -m jupyterlab --ServerApp.port=9000", Notebook(port=9000)),
        ("python3 -m jupyter notebook --NotebookApp.base_url=/user/ann/", Notebook(base="/user/ann")),
        ("PORT=$((8000 + 7))\njupyter server --port=$PORT", Notebook(port=8007)),
        ("jupyter lab --IdentityProvider.token=abc", Notebook(token="abc")),
        ("jupyter lab --NotebookApp.token=''", Notebook(token="")),
        ("export JUPYTER_TOKEN=abc\njupyter lab", Notebook(token="abc")),
        ("jupyter lab &\npython train.py\nwait", Notebook()),
        ("start-notebook.sh --NotebookApp.token=x", Notebook(token="x")),
    ],
)
def test_a_server_is_found_with_its_port_base_url_and_token(script: str, found: Notebook) -> None:
    assert started(script) == (found,)


def test_the_servers_own_variables_count_where_no_option_does() -> None:
    variables = {"JUPYTER_PORT": "7777", "JUPYTER_TOKEN": "abc"}
    assert started("jupyter lab", **variables) == (Notebook(port=7777, token="abc"),)
    assert started("jupyter lab --port=1 --ServerApp.token=d", **variables) == (Notebook(port=1, token="d"),)


def test_of_two_servers_both_are_known() -> None:
    assert started("jupyter lab --port=1 &\njupyter lab --port=2") == (Notebook(port=1), Notebook(port=2))


@pytest.mark.parametrize(
    "script",
    [
        "torchrun train.py",
        "jupyter nbconvert --execute train.ipynb",
        "jupyter kernelspec list\npython train.py",
        "jupyter console",
        "ipython",
        "sleep infinity",
    ],
)
def test_what_serves_no_notebooks_is_not_asked(script: str) -> None:
    assert started(script) == ()


@pytest.mark.parametrize(
    "script",
    [
        "jupyter lab --port=$PORT_OF_THE_DAY",
        "jupyter lab --port $PORT_OF_THE_DAY",
        "jupyter lab --port=many",
        "jupyter lab --port=70000",
        "jupyter lab --ServerApp.base_url=$PREFIX",
        "jupyter lab --ServerApp.base_url=/../admin",
        "jupyter lab --certfile=/certs/tls.crt",
        "jupyter lab --sock=/tmp/jupyter.sock",
    ],
)
def test_a_server_whose_place_is_not_known_is_one_all_the_same(script: str) -> None:
    (found,) = started(script)
    assert found.fault is not None


def test_no_token_is_shown() -> None:
    assert "abc" not in repr(started("jupyter lab --IdentityProvider.token=abc"))


@pytest.mark.parametrize(
    "text, found",
    [
        (None, None),
        ("off", ()),
        ("8888", (Notebook(),)),
        ("9999/", (Notebook(port=9999),)),
        ("8888/user/ann", (Notebook(base="/user/ann"),)),
        ("8888/user/ann%40x/", (Notebook(base="/user/ann%40x"),)),
    ],
)
def test_the_owners_word_counts(text: str | None, found: Any) -> None:
    assert named({} if text is None else {"stoker.dev/jupyter": text}) == found


@pytest.mark.parametrize(
    "text",
    ["", "on", "0", "65536", "8888x", "-1", "8888/../..", "8888/a b", "8888?x=1", "8888/a?token=x", "10.0.0.1:80",
     "8888@evil.example", "8888#", "8888/\n", "http://evil.example/", "8888/" + "a" * MAX_BASE],
)  # fmt: skip
def test_an_annotation_that_names_no_place_is_a_fault_that_says_what_is_allowed(text: str) -> None:
    found = named({"stoker.dev/jupyter": text})
    assert found is not None
    assert found[0].fault is not None
    assert "must be a port" in found[0].fault


def test_a_token_of_the_environment_is_read_where_it_stands_there_itself() -> None:
    def pod(*env: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "proxy"}, {"name": "trainer", "env": list(env)}]}}

    assert literal_token(pod({"name": "JUPYTER_TOKEN", "value": "abc"})) == "abc"
    secret = {"name": "JUPYTER_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert literal_token(pod(secret)) is None
    assert literal_token(pod()) is None

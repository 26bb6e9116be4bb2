"""One set of options for all that reads metrics, from the command line and from the environment."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from stoker.adapters.prometheus.access import QUERY_TIMEOUT, LabelMatcher, PrometheusAccess
from stoker.adapters.prometheus.metric_profile import profiles
from stoker.cli.prometheus_options import PROFILES, prometheus_options

URL = "https://mimir/prometheus"


def invoke(*args: str, env: Mapping[str, str] | None = None) -> tuple[Result, list[tuple[PrometheusAccess, str]]]:
    seen: list[tuple[PrometheusAccess, str]] = []

    @click.command()
    @prometheus_options
    @click.option("--other", default="kept")
    def command(access: PrometheusAccess, other: str) -> None:
        seen.append((access, other))

    return CliRunner(env={"STOKER_PROMETHEUS_URL": None, "PROMETHEUS_URL": None} | dict(env or {})).invoke(
        command, args
    ), seen


def test_the_address_alone_is_enough() -> None:
    _, [(access, other)] = invoke("--prometheus", URL)
    assert access == PrometheusAccess(url=URL)
    assert (access.timeout, other) == (QUERY_TIMEOUT, "kept")


def test_every_option_arrives(tmp_path: Path) -> None:
    result, seen = invoke(
        *("--prometheus-url", URL, "--prometheus-profile", "amd", "--prometheus-metric-prefix", "amd_"),
        *("--prometheus-username", "stoker", "--prometheus-password-file", str(tmp_path / "password")),
        *("--prometheus-ca-file", str(tmp_path / "ca"), "--prometheus-cert-file", str(tmp_path / "cert")),
        *("--prometheus-key-file", str(tmp_path / "key"), "--prometheus-timeout", "20s"),
        *("--prometheus-header", "X-Scope-OrgID: a|b", "--prometheus-header", "X-Other:c"),
        *("--prometheus-matcher", 'job=~"dcgm|kubelet"', "--prometheus-matcher", "cluster=a"),
    )
    assert result.exit_code == 0, result.output
    assert seen[0][0] == PrometheusAccess(
        url=URL,
        profile="amd",
        metric_prefix="amd_",
        username="stoker",
        password_file=tmp_path / "password",
        ca_file=tmp_path / "ca",
        cert_file=tmp_path / "cert",
        key_file=tmp_path / "key",
        headers={"X-Scope-OrgID": "a|b", "X-Other": "c"},
        matchers=(
            LabelMatcher(label="job", operator="=~", value="dcgm|kubelet"),
            LabelMatcher(label="cluster", operator="=", value="a"),
        ),
        timeout=timedelta(seconds=20),
    )


@pytest.mark.parametrize("name", ["STOKER_PROMETHEUS_URL", "PROMETHEUS_URL"])
def test_the_environment_says_it_as_well(name: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    headers = "X-Scope-OrgID: a\nX-Other: b\n"
    _, [(access, _)] = invoke(
        env={name: URL, "STOKER_PROMETHEUS_TOKEN_FILE": str(token), "STOKER_PROMETHEUS_HEADER": headers}
    )
    assert access == PrometheusAccess(url=URL, token_file=token, headers={"X-Scope-OrgID": "a", "X-Other": "b"})


@pytest.mark.parametrize(
    "args, said",
    [
        ([], "--prometheus"),
        (["--prometheus", "mimir"], "http://prometheus"),
        (["--prometheus", URL, "--prometheus-username", "a"], "and --prometheus-password-file go together"),
        (["--prometheus", URL, "--prometheus-key-file", "k"], "--prometheus-key-file is the key of"),
        (["--prometheus", URL, "--prometheus-header", "X-Scope-OrgID"], "X-Scope-OrgID: team-a"),
        (["--prometheus", URL, "--prometheus-profile", "intel"], "nvidia"),
        (["--prometheus", URL, "--prometheus-timeout", "6"], "1h30m"),
    ],
)
def test_what_can_not_work_is_a_usage_error(args: list[str], said: str) -> None:
    result, seen = invoke(*args)
    assert result.exit_code == 2
    assert said in result.output
    assert seen == []


def test_every_profile_can_be_chosen() -> None:
    assert set(PROFILES) == set(profiles())

"""What a screen asks, of whom, and what it makes of rows: the largest value counts, and a value that is none leaves a
doubt.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.adapters.prometheus.metric_profile import Factors, profile_of
from stoker.adapters.prometheus.promql import ORIGIN, Selectors
from stoker.adapters.prometheus.screen import CLOSE_QUERIES, NAMED_PODS, WINDOWS, Screening, _chosen
from stoker.adapters.prometheus.transport import Rows
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import GpuWindow, MetricsUnavailable, PodKey, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
UTIL, GRAPHICS, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
POWER, MEMORY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"
BLANK = "9223372036854775794"
Row = dict[str, Any]


class Scripted:
    """A Connection that gives prepared answers and remembers the requests."""

    selector = Selectors()

    def __init__(self, *answers: Sequence[Row], back: Sequence[Row] = ()) -> None:
        self.answers = list(answers)
        self.back = back
        self.asked: list[str] = []

    async def instant(self, query: str, now: datetime) -> Rows:
        self.asked.append(query)
        return Rows(list(self.answers.pop(0)) if self.answers else [], (), now)

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        self.asked.append(query)
        return Rows(list(self.back), (), NOW)

    async def off_loop(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)


class Refusing(Scripted):
    """One that answers for no range while it refuses."""

    refuses = True

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        if self.refuses:
            raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "too many samples")
        return await super().range(query, start, end, step)


def screening(connection: Scripted) -> Screening:
    used: Any = connection  # all that Screening uses of a Connection
    return Screening(used, profile_of("nvidia"), Factors(), resolution=timedelta(seconds=60))


def row(origin: str, value: str, pod: str = "bert-0", **labels: str) -> Row:
    identity = {"UUID": "GPU-1", "gpu": "0", "namespace": "team", "pod": pod, "modelName": "NVIDIA H100", **labels}
    return {"metric": {ORIGIN: origin, **identity}, "value": [NOW.timestamp(), value]}


def summary(pod: str, value: str = "0", origin: str = UTIL) -> Row:
    return {"metric": {ORIGIN: origin, "namespace": "team", "pod": pod}, "value": [NOW.timestamp(), value]}


def detailed(pod: str, *told: tuple[str, str], seconds: int = 3600, **labels: str) -> list[Row]:
    """A device's rows of a detailed check; each has a label set of its own."""
    rows = [(f"coverage/{seconds}", "100"), (f"gapless/{seconds}", "60"), (f"last/{UTIL}", str(NOW.timestamp()))]
    rows += [(f"{origin}/{seconds}", value) for origin, value in told]
    return [row(origin, value, pod, gpu_id=str(number), **labels) for number, (origin, value) in enumerate(rows)]


def screen_request(*pods: str, window: timedelta = HOUR, **options: Any) -> ScreenRequest:
    return ScreenRequest(pods=tuple(("team", pod) for pod in pods), window=window, **options)


async def screened(*told: tuple[str, str]) -> GpuWindow:
    """One GPU of a pod that rests at a summary, by what the detailed check tells of it."""
    connection = Scripted([summary("bert-0")], detailed("bert-0", *told))
    (screen,) = await screening(connection).read([screen_request("bert-0")], NOW)
    ((gpu,),) = screen.gpus.values()
    return gpu


@pytest.mark.parametrize("values", [("0.9", "0"), ("0", "0.9")])
async def test_of_two_label_sets_of_a_device_the_larger_value_counts(values: tuple[str, str]) -> None:
    gpu = await screened((UTIL, "0"), *((SM, value) for value in values))
    assert gpu.peaks[GpuSignal.SM_ACTIVE] == pytest.approx(90)
    assert not gpu.doubtful


@pytest.mark.parametrize("none", ["NaN", BLANK])
@pytest.mark.parametrize("turned", [False, True])
async def test_a_value_that_is_none_hides_no_other_and_leaves_a_doubt(none: str, turned: bool) -> None:
    first = [(UTIL, none), (UTIL, "5")]
    gpu = await screened(*(first[::-1] if turned else first))
    assert gpu.peaks == {GpuSignal.UTIL: 5}
    assert gpu.doubtful
    second = [(SM, none), (SM, "0.5")]
    gpu = await screened((UTIL, "0"), *(second[::-1] if turned else second))
    assert gpu.peaks == {GpuSignal.UTIL: 0, GpuSignal.SM_ACTIVE: 50}
    assert gpu.doubtful


@pytest.mark.parametrize("none", ["NaN", "+Inf", "-1", BLANK])
@pytest.mark.parametrize("metric", [UTIL, SM, POWER])
async def test_a_signal_without_a_plausible_peak_leaves_a_doubt_beside_one_that_rests(none: str, metric: str) -> None:
    gpu = await screened((GRAPHICS, "0"), (metric, none))
    assert gpu.peaks == {GpuSignal.GRAPHICS: 0}
    assert gpu.doubtful


async def test_samples_that_are_not_numbers_leave_a_doubt() -> None:
    connection = Scripted(
        [summary("bert-0")], [*detailed("bert-0", (UTIL, "0")), row(f"doubt/3600/{UTIL}", "1", gpu_id="x")]
    )
    (screen,) = await screening(connection).read([screen_request("bert-0")], NOW)
    ((gpu,),) = screen.gpus.values()
    assert gpu.doubtful


async def test_memory_shows_no_activity_and_leaves_no_doubt() -> None:
    assert not (await screened((UTIL, "0"), (MEMORY, BLANK))).doubtful


async def test_a_window_of_which_nothing_says_that_it_has_no_gap_has_one() -> None:
    rows = [one for one in detailed("bert-0", (UTIL, "0")) if not one["metric"][ORIGIN].startswith("gapless")]
    (screen,) = await screening(Scripted([summary("bert-0")], rows)).read([screen_request("bert-0")], NOW)
    ((gpu,),) = screen.gpus.values()
    assert gpu.has_gap
    assert not (await screened((UTIL, "0"))).has_gap


async def test_a_value_that_may_be_in_either_unit_is_a_doubt() -> None:
    """Of a slice the graphics engine is the only proof: 0.08 is work as a ratio, and rest as a percentage."""
    other = detailed("other-0", (GRAPHICS, "35"), UUID="GPU-2")
    connection = Scripted([summary("bert-0"), summary("other-0")], [*detailed("bert-0", (GRAPHICS, "0.08")), *other])
    (mine, _) = await screening(connection).read([screen_request("bert-0"), screen_request("other-0")], NOW)
    ((gpu,),) = mine.gpus.values()
    assert gpu.doubtful


@pytest.mark.parametrize("least, most, watts", [("124", "130", 124), ("124", "400", 124), ("540", "545", 3 * 75)])
async def test_what_a_model_without_a_figure_draws_at_rest_is_learned(least: str, most: str, watts: float) -> None:
    """From its own least, as far as that is within reach of what another GPU of the model draws."""
    others = [row("low/3600/" + POWER, "75", "idle-0", UUID="GPU-2", modelName="NVIDIA H200", gpu_id="x")]
    own = detailed("bert-0", (UTIL, "0"), (POWER, most), modelName="NVIDIA H200")
    own.append(row("low/3600/" + POWER, least, modelName="NVIDIA H200", gpu_id="y"))
    connection = Scripted([summary("bert-0"), summary("idle-0")], [*own, *others])
    (screen, _) = await screening(connection).read([screen_request("bert-0"), screen_request("idle-0")], NOW)
    ((gpu,),) = screen.gpus.values()
    assert gpu.context_idle_watts == watts
    assert gpu.peaks[GpuSignal.POWER] == float(most)


# ------------------------------------------------------------------------------------------- who is checked in detail


async def looked_at(summaries: Sequence[Row], *requests: ScreenRequest) -> tuple[list[Screen], str]:
    """The screens, and the query of the detailed check ('' for none)."""
    connection = Scripted(summaries)
    screens = await screening(connection).read(requests, NOW)
    return screens, connection.asked[1] if len(connection.asked) > 1 else ""


async def test_a_job_is_looked_at_closely_only_if_all_its_pods_rest() -> None:
    screens, query = await looked_at(
        [summary("rests-0"), summary("rests-1"), summary("works-0"), summary("works-1", "35")],
        screen_request("rests-0", "rests-1"),
        screen_request("works-0", "works-1"),
    )
    assert "rests-0|rests-1" in query
    assert "works" not in query
    assert [bool(screen.gpus) for screen in screens] == [True, False]
    assert screens[1].summaries["team", "works-1"].averages == {GpuSignal.UTIL: 35}


async def test_the_policy_says_up_to_where_a_job_may_rest() -> None:
    for percent, found in ((0.0, False), (5.0, True)):
        _, query = await looked_at([summary("bert-0", "4")], screen_request("bert-0", idle_percent=percent))
        assert bool(query) is found


@pytest.mark.parametrize("none", ["NaN", BLANK])
async def test_a_glance_at_a_value_that_is_none_proves_no_work(none: str) -> None:
    screens, query = await looked_at([summary("bert-0", none)], screen_request("bert-0"))
    assert "bert-0" in query
    assert screens[0].summaries["team", "bert-0"].averages == {}


async def test_who_can_not_be_idle_is_only_glanced_at() -> None:
    screens, query = await looked_at([summary("young-0")], screen_request("young-0", detailed=False))
    assert not query
    assert screens[0].summaries
    assert not screens[0].deferred


async def test_where_nobody_speaks_one_query_is_enough() -> None:
    (screen,), query = await looked_at([], screen_request("bert-0"))
    assert not query
    assert screen.gpus == {}


@pytest.mark.parametrize(
    "samples, percent",
    [
        (["100", "0"], 0.6),
        (["1", "0.97"], 60),
        # A single value under 1 that is a fraction is enough, and none but 1 and 0 is not: as its name says, then.
        (["0.4", "0.4"], 60),
        (["1", "0"], 0.6),
    ],
)
async def test_whether_means_are_ratios_is_learned_from_samples(samples: list[str], percent: float) -> None:
    told = [{"metric": {ORIGIN: f"{UTIL}/sample"}, "value": [0, value]} for value in samples]
    (screen,), _ = await looked_at([summary("bert-0", "0.6"), *told], screen_request("bert-0"))
    assert screen.summaries["team", "bert-0"].average_percent == pytest.approx(percent)


async def test_samples_are_asked_for_until_they_have_told() -> None:
    reader = screening(connection := Scripted([summary("bert-0", "40")]))
    await reader.read([screen_request("bert-0")], NOW)
    await reader.read([screen_request("bert-0")], NOW)
    assert [f"max({UTIL})" in query for query in connection.asked] == [True, False]


async def test_a_device_that_a_busy_pod_holds_as_well_is_shared() -> None:
    """The other pod is not looked at detailed: its row is there because the device is."""
    rows = [*detailed("rests-0", (UTIL, "0")), row(f"last/{UTIL}", str(NOW.timestamp()), "works-0")]
    connection = Scripted([summary("rests-0"), summary("works-0", "90")], rows)
    screens = await screening(connection).read([screen_request("rests-0"), screen_request("works-0")], NOW)
    assert [gpu.shared for gpu in screens[0].gpus["team", "rests-0"]] == [True]


async def test_each_pod_is_judged_by_its_own_window_even_beside_one_of_its_name() -> None:
    connection = Scripted(
        [summary("bert-0"), {**summary("bert-0"), "metric": {**summary("bert-0")["metric"], "namespace": "other"}}],
        [
            *detailed("bert-0", (UTIL, "0"), seconds=3600),
            *detailed("bert-0", (UTIL, "70"), seconds=600),
            *detailed("bert-0", (UTIL, "0"), seconds=600, namespace="other", UUID="GPU-2"),
        ],
    )
    other: PodKey = ("other", "bert-0")
    short = ScreenRequest(pods=(other,), window=timedelta(minutes=10))
    screens = await screening(connection).read([screen_request("bert-0"), short], NOW)
    assert screens[0].gpus["team", "bert-0"][0].peaks == {GpuSignal.UTIL: 0}
    assert screens[1].gpus[other][0].peaks == {GpuSignal.UTIL: 0}


# --------------------------------------------------------------------------------------------------------------- cost


async def test_five_queries_whatever_the_number_of_jobs_and_of_windows() -> None:
    jobs = 3 * CLOSE_QUERIES * NAMED_PODS
    requests = [screen_request(f"job-{number}-0", window=timedelta(minutes=10 + number % 90)) for number in range(jobs)]
    connection = Scripted([summary(f"job-{number}-0") for number in range(jobs)])
    screens = await screening(connection).read(requests, NOW)
    assert len(connection.asked) == 1 + CLOSE_QUERIES
    assert sum(screen.deferred for screen in screens) == jobs - CLOSE_QUERIES * NAMED_PODS
    assert len({screen.window for screen in screens}) == WINDOWS
    assert all(screen.window >= asked.window for screen, asked in zip(screens, requests, strict=True))


async def test_a_job_of_more_pods_than_a_screen_names_is_looked_at_all_the_same() -> None:
    pods = [f"huge-{rank}" for rank in range(CLOSE_QUERIES * NAMED_PODS + 100)]
    connection = Scripted([summary(pod) for pod in (*pods, "small-0")])
    huge, small = await screening(connection).read([screen_request(*pods), screen_request("small-0")], NOW)
    assert len(connection.asked) == 1 + CLOSE_QUERIES
    assert not huge.deferred
    assert small.deferred


async def test_jobs_that_rest_come_before_those_without_samples() -> None:
    silent = [screen_request(f"silent-{number}") for number in range(CLOSE_QUERIES * NAMED_PODS)]
    screens, query = await looked_at([summary("rests-0")], *silent, screen_request("rests-0"))
    assert "rests-0" in query
    assert screens[-1].gpus
    assert not any(screen.deferred for screen in screens)


def test_at_most_so_many_windows_and_nobody_judged_by_a_shorter_one() -> None:
    wanted = Counter(timedelta(minutes=minutes) for minutes in range(10, 31))
    chosen = _chosen(wanted)
    assert len(chosen) == WINDOWS
    assert max(chosen) == max(wanted)
    assert _chosen(Counter(chosen)) == chosen


def test_owners_with_windows_of_their_own_make_nobody_elses_longer() -> None:
    """Else twenty who ask for nearly a day would keep all others' GPUs for a day."""
    usual = {HOUR: 60, timedelta(minutes=30): 40}
    own = {timedelta(hours=24) - timedelta(minutes=minutes): 1 for minutes in range(20)}
    chosen = _chosen(Counter(usual | own))
    assert {*usual, max(own)} < set(chosen)
    assert len(chosen) == WINDOWS


# --------------------------------------------------------------------------------------------------- idle since when


def past(worked: Callable[[float], float | None]) -> list[Row]:
    """Rows of a look back in steps of five minutes: `worked` by the step's age in seconds, None for no row."""
    times = [NOW.timestamp() - 300 * number for number in range(289)][::-1]
    values = np.array([(time, value) for time in times if (value := worked(NOW.timestamp() - time)) is not None])
    return [{"metric": {"UUID": "GPU-1", "namespace": "team", "pod": "bert-0"}, "values": values}]


async def quiet_since(reader: Screening, now: datetime = NOW, *, idle_percent: float = 0.0) -> timedelta | None:
    (screen,) = await reader.read([screen_request("bert-0", idle_percent=idle_percent)], now)
    ((gpu,),) = screen.gpus.values()
    return None if gpu.quiet_since is None else NOW - gpu.quiet_since


@pytest.mark.parametrize(
    "worked, since",
    [
        (lambda age: float(age >= 7200), timedelta(hours=2)),
        # A step that samples do not cover has no row: the stretch begins after the gap.
        (lambda age: None if age == 7200 else 0.0, timedelta(hours=2)),
        (lambda age: 0.0, timedelta(hours=24)),
        # Work, for the look back, within the window, for the detailed check not: its own word counts.
        (lambda age: float(age >= 600), HOUR),
    ],
)
async def test_an_idle_stretch_begins_after_the_last_work_or_gap(
    worked: Callable[[float], float | None], since: timedelta
) -> None:
    connection = Scripted([summary("bert-0")], detailed("bert-0", (UTIL, "0")), back=past(worked))
    assert await quiet_since(screening(connection)) == since


async def test_an_idle_stretch_is_looked_up_once_and_goes_on_while_windows_overlap() -> None:
    rest = [summary("bert-0")], detailed("bert-0", (UTIL, "0"))
    connection = Scripted(*rest, *rest, *rest, back=past(lambda age: float(age >= 7200)))
    reader = screening(connection)
    assert await quiet_since(reader) == timedelta(hours=2)
    connection.back = ()
    assert await quiet_since(reader, NOW + timedelta(minutes=59)) == timedelta(hours=2)
    assert len(connection.asked) == 3 + 2
    # More than a window later: what was between is not known.
    assert await quiet_since(reader, NOW + timedelta(minutes=120)) == -timedelta(hours=1)


async def test_an_idle_stretch_whose_beginning_is_not_found_begins_with_the_first_window() -> None:
    """Else it would begin anew with each screen, and so would whatever waits for it to last."""
    rest = [summary("bert-0")], detailed("bert-0", (UTIL, "0"))
    connection = Refusing(*rest, *rest, *rest, back=past(lambda age: float(age >= 7200)))
    reader = screening(connection)
    assert await quiet_since(reader) == HOUR
    assert await quiet_since(reader, NOW + timedelta(minutes=2)) == HOUR
    connection.refuses = False
    assert await quiet_since(reader, NOW + timedelta(minutes=4)) == timedelta(hours=2)


async def test_a_screen_that_ends_after_a_later_one_knows_the_beginning_all_the_same() -> None:
    rest = [summary("bert-0")], detailed("bert-0", (UTIL, "0"))
    connection = Scripted(*rest, *rest, back=past(lambda age: float(age >= 7200)))
    reader = screening(connection)
    assert await quiet_since(reader, NOW + timedelta(seconds=1)) == timedelta(hours=2)
    assert await quiet_since(reader) == timedelta(hours=2)


async def test_a_stretch_of_the_use_that_a_policy_takes_for_idle_goes_on_like_one_of_none() -> None:
    """Else it would begin a window ago with each screen, and a warning with a grace as long would never stand."""
    used = [summary("bert-0", "1")], detailed("bert-0", (UTIL, "2"))
    connection = Scripted(*used, *used, *used, back=past(lambda age: 1.0))
    reader = screening(connection)
    assert await quiet_since(reader, idle_percent=3) == HOUR
    assert await quiet_since(reader, NOW + timedelta(minutes=30), idle_percent=3) == HOUR
    # What is idle no more under a stricter policy was not idle before either.
    connection.answers = [[summary("bert-0")], detailed("bert-0", (UTIL, "0"))]
    assert await quiet_since(reader, NOW + timedelta(minutes=45)) == timedelta(minutes=15)


async def test_a_window_with_gaps_carries_no_idle_stretch_on() -> None:
    told = [row("coverage/3600", "89", gpu_id="c"), row(f"{UTIL}/3600", "0", gpu_id="u")]
    connection = Scripted([summary("bert-0")], told, back=past(lambda age: 0.0))
    assert await quiet_since(screening(connection)) is None
    assert len(connection.asked) == 2

"""What the checks look at: the cluster, its Prometheus and the clock. What several checks read is read once, and what
could not be read once is not asked for again.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self, TypeVar, cast

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import Answer, ForbiddenError, Kubernetes, NotFoundError, Object, Resource
from stoker.adapters.prometheus.access import LabelMatcher, PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection
from stoker.adapters.prometheus.metric_profile import MetricProfile, profile_of, profiles
from stoker.adapters.prometheus.transport import Rows
from stoker.inspection.doctor.check import NotCheckableError
from stoker.inspection.doctor.installation import Component, Role, components

DEPLOYMENTS = Resource("apps", "v1", "deployments")
LOCAL = "kubectl port-forward -n NAMESPACE svc/PROMETHEUS 9090, then --prometheus http://127.0.0.1:9090"
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Prometheus as the controller sees it: with its matchers, and its profile of metrics."""

    connection: PrometheusConnection
    profile: MetricProfile


class Scene:
    """One installation. An async context manager, which ends the connection to Prometheus."""

    def __init__(
        self,
        api: Kubernetes,
        access: PrometheusAccess | None,
        clock: Clock,
        *,
        namespace: str,
        trial_namespace: str | None = None,
    ) -> None:
        self.api = api
        self.clock = clock
        self.namespace = namespace
        """The operator's."""
        self.trial_namespace = trial_namespace
        """Where DLJobs are sent as dry runs; None where nobody has named a namespace."""
        self._access = access
        self._known: dict[Hashable, object] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    @property
    def now(self) -> datetime:
        """The time of this machine."""
        return self.clock.now()

    async def once(self, key: Hashable, read: Callable[[], Awaitable[Read]]) -> Read:
        """What `read` has returned when it was first asked for under this key; raises what it raised then."""
        if key not in self._known:
            try:
                self._known[key] = await read()
            except Exception as error:
                self._known[key] = error
        answer = self._known[key]
        if isinstance(answer, Exception):
            raise answer
        return cast("Read", answer)

    # --------------------------------------------------------------------------------------------------- the cluster

    async def objects(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None
    ) -> list[Object]:
        """All objects of a kind. Raises NotCheckableError where they may not be listed, NotFoundError for a kind that
        the API server does not have.
        """

        async def read() -> list[Object]:
            found, _ = await self.api.list(resource, namespace, labels=labels)
            return found

        try:
            return await self.once(("list", resource, namespace, labels), read)
        except ForbiddenError as error:
            where = f" in namespace {namespace}" if namespace else ""
            raise NotCheckableError(f"you may not list {_kind(resource)}{where}") from error

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """One object; None where there is none. Raises NotCheckableError where it may not be read."""
        try:
            return await self.once(("get", resource, namespace, name), lambda: self.api.get(resource, namespace, name))
        except NotFoundError:
            return None
        except ForbiddenError as error:
            raise NotCheckableError(f"you may not read {_kind(resource)}/{name}") from error

    async def api_version(self) -> tuple[Answer, datetime]:
        """What the API server says of its version, and when it did by this machine's clock. Raises ApiError."""

        async def read() -> tuple[Answer, datetime]:
            return await self.api.read("/version"), self.now

        return await self.once("version", read)

    async def components(self) -> Mapping[Role, Component]:
        """The parts of the operator. Raises NotCheckableError where the Deployments may not be listed."""
        return components(await self.objects(DEPLOYMENTS, self.namespace))

    async def component(self, role: Role) -> Component:
        """One part. Raises NotCheckableError where it is not known."""
        found = (await self.components()).get(role)
        if found is None:
            raise NotCheckableError(f"no Deployment in namespace {self.namespace} runs stoker run {role}")
        return found

    # ------------------------------------------------------------------------------------------------------- metrics

    async def metrics(self) -> Metrics:
        """Prometheus. Raises NotCheckableError where nobody has said where it is."""

        async def connect() -> Metrics:
            if self._access is None:
                raise NotCheckableError(await self._without_url())
            access = await self._as_controller(self._access)
            connection = PrometheusConnection(access, max_skew=None)
            self._open.push_async_callback(connection.close)
            return Metrics(connection=connection, profile=profile_of(access.profile, access.metric_prefix))

        return await self.once("metrics", connect)

    async def query(self, promql: str) -> Rows:
        """A query's rows now. Raises MetricsUnavailable."""
        metrics = await self.metrics()
        return await self.once(("query", promql), lambda: metrics.connection.instant(promql, self.now))

    async def _without_url(self) -> str:
        try:
            url = (await self.component(Role.CONTROLLER)).option("prometheus-url")
        except Exception:
            url = ""
        known = f" (the controller reads {url})" if url else ""
        return f"no --prometheus URL was given{known}; from outside the cluster: {LOCAL}"

    async def _as_controller(self, access: PrometheusAccess) -> PrometheusAccess:
        """The access with the controller's profile, prefix and matchers, where they can be read."""
        try:
            controller = await self.component(Role.CONTROLLER)
        except Exception:
            return access
        profile = controller.option("prometheus-profile")
        prefix = controller.option("prometheus-metric-prefix")
        try:
            matchers = tuple(LabelMatcher.parse(text) for text in controller.options.get("prometheus-matcher", ()))
            return replace(
                access,
                profile=profile if profile in profiles() else access.profile,
                metric_prefix=prefix or access.metric_prefix,
                matchers=access.matchers or matchers,
            )
        except ValueError:
            return access


def _kind(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def field(found: Mapping[str, Any], *path: str) -> Any:
    """What stands at a path of an object; None where any part is missing."""
    value: Any = found
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


__all__ = ["DEPLOYMENTS", "Metrics", "Scene", "field"]

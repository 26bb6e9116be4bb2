"""Workers that do their tasks at once, in the test's own process, where a test can put other functions in place."""

import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stoker.adapters.workers import TaskEnd, TaskOutcome, Workers

T = TypeVar("T")


class InlineWorkers(Workers):
    """`end`: how each task is to end, after as many `results` as are let through; None: as it does."""

    def __init__(self) -> None:
        super().__init__(1)
        self.end: TaskEnd | None = None
        self.results = 0
        self.asked: list[dict[str, Any]] = []

    async def run(
        self, function: Callable[..., Iterator[T]], *arguments: Any, owner: str, cpu: float, deadline: float
    ) -> TaskOutcome[T]:
        self.asked.append({"owner": owner, "cpu": cpu, "deadline": deadline})
        result: T | None = None
        try:
            for number, answer in enumerate(function(*arguments)):
                if self.end is not None and number >= self.results:
                    break
                result = answer
        except Exception:
            return TaskOutcome(end=TaskEnd.RAISED, result=result, detail=traceback.format_exc())
        return TaskOutcome(end=self.end or TaskEnd.DONE, result=result)

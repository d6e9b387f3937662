"""Which points an attempt has, and what became of them as supervisor 0 judged: for people, and for the exit code."""

from __future__ import annotations

from collections.abc import Collection

from runtime.contract.counting import which
from runtime.contract.errors import ExitCode
from runtime.contract.progress import Done, PointPhase


class Tally:
    """Points that failed or were not run, each with its first cause.

    `points` is how many the suite has, 0 while no worker has said; `only` are those to run, None: all.
    """

    def __init__(self, only: Collection[int] | None = None) -> None:
        self.points = 0
        self._only = only
        self._names: dict[int, str] = {}
        self._failed: dict[int, str] = {}
        self._not_run: dict[int, str] = {}
        self._news: list[str] = []
        self._paused: set[int] = set()

    def learn(self, told: PointPhase | Done) -> None:
        """A worker says how many points the suite has, and what one of them is called."""
        self.points = max(self.points, told.points)
        if isinstance(told, PointPhase):
            self._names[told.point] = told.benchmark

    def named(self, point: int) -> str:
        """Returns which point is meant, for people; past the last one it is what comes after all."""
        if 0 < self.points <= point:
            return "the end of the suite"
        return which(point, self.points, self._names.get(point, ""))

    def first_from(self, point: int) -> int:
        """Returns the first point to run from `point` on; past the last of the suite when there is none."""
        if self._only is None:
            return point
        return min((each for each in self._only if each >= point), default=max(self.points, point))

    def paused(self, point: int) -> None:
        """Notes that a point goes on later: others come first."""
        self._paused.add(point)

    def ended(self, point: int) -> None:
        """Notes that nothing more comes of a point."""
        self._paused.discard(point)

    def following(self, point: int) -> int:
        """Returns the first point to run once `point` is over: one that was paused, or else the one after it."""
        return min(self._paused - {point}, default=self.first_from(point + 1))

    def failed(self, point: int, cause: str) -> None:
        """Notes that a point failed; the first cause stands."""
        if point not in self._failed:
            self._failed[point] = cause
            self._news.append(f"{self.named(point)} failed: {cause}")

    def not_run(self, point: int, cause: str) -> None:
        """Notes that a point was not run; the first cause stands."""
        if point not in self._not_run:
            self._not_run[point] = cause
            self._news.append(f"{self.named(point)} was not run: {cause}")

    def tell(self, text: str) -> None:
        """Has people told something else."""
        self._news.append(text)

    def news(self) -> list[str]:
        """Returns what was noted since the last call, a line each."""
        news, self._news = self._news, []
        return news

    def code(self, code: int) -> ExitCode:
        """Returns the exit code that the points stand for, where `code`, known already, is not of more weight."""
        worst = ExitCode(code)
        if worst is ExitCode.DONE and self._failed:
            worst = ExitCode.WORKLOAD_FAILED
        if worst in (ExitCode.DONE, ExitCode.WORKLOAD_FAILED) and self._not_run:
            worst = ExitCode.INFRASTRUCTURE
        return worst

    def cause(self, first: str = "") -> str:
        """Returns `first`, or else the first thing noted, and how much more there is; empty when all is well."""
        told = [first] if first else []
        told += [f"{self.named(point)} failed: {why}" for point, why in self._failed.items()]
        told += [f"{self.named(point)} was not run: {why}" for point, why in self._not_run.items()]
        rest = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        return told[0] + rest if told else ""

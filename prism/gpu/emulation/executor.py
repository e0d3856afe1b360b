"""Threads that do jobs in order: one for each thing that runs serially, made when it is first needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable

Job = Callable[[], None]


class Executors:
    """Jobs with equal keys run one after the other, others beside them; `failed` hears what a job raises."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._queues: dict[Hashable, queue.SimpleQueue[Job]] = {}
        self._lock = threading.Lock()

    def submit(self, key: Hashable, job: Job) -> None:
        """Do the job once all that was submitted under this key is done."""
        with self._lock:
            jobs = self._queues.get(key)
            if jobs is None:
                jobs = self._queues[key] = queue.SimpleQueue()
                threading.Thread(target=self._serve, args=(jobs,), name=f"prism-{key}", daemon=True).start()
        jobs.put(job)

    def _serve(self, jobs: queue.SimpleQueue[Job]) -> None:
        try:
            while True:
                jobs.get()()
        except BaseException as error:
            self._failed(error)

"""Operations of a device that the program has not waited for: who waits for the whole device waits for them too."""

from __future__ import annotations

from typing import Any

from prism.gpu.rank.link import Link


class Unwaited(Link):
    """A Link that knows them."""

    def __init__(self, *arguments: Any) -> None:
        self._unwaited: dict[int, None] = {}
        super().__init__(*arguments)

    def note(self, handle: int) -> None:
        """An operation of the device has been posted."""
        self._unwaited[handle] = None

    def forget(self, handle: int) -> None:
        """The program has waited for it."""
        self._unwaited.pop(handle, None)

    def settle(self) -> None:
        """Wait for all of them."""
        handles = tuple(self._unwaited)
        if handles and self.is_program():
            self._unwaited.clear()
            self.wait(handles)

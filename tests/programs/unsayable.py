"""Fails with what cannot be said: text that is no text, or an exception that cannot say what it is."""

import sys


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


raise Mute if sys.argv[1] == "mute" else ValueError("half of \ud83d")

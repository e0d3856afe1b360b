"""The workers of a run, as one: see Crew."""

from prism.crew.attendance import Lost
from prism.crew.crew import Crew

__all__ = ["Crew", "Lost"]

"""From a calibrated graph to predicted times, as they are and as they would be."""

from prism.prediction.prediction import Prediction, predict

__all__ = ["Prediction", "predict"]

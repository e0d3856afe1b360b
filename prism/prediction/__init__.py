"""From a calibrated graph to predicted times, as they are and as they would be."""

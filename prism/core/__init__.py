"""The pure heart: graph, matching, clocks, calibration, replay and diagnosis; no I/O of any kind."""

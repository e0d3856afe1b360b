"""From measured segments to durations: outliers, samples, and ranks that share a measurement."""

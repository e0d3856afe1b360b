"""What a rank has allocated, at most and by what."""

"""Views derived from a finished run; nothing here is a source of truth."""

"""Folding: of ranks that behave alike one runs, and stands for the others."""

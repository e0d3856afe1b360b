"""The stages of a run: what each needs, how a world is driven through it, and what is made of what it finds."""

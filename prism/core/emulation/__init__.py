"""What of a graph concerns a few sandbox ranks: the ops they touch, and a summary of all the rest."""

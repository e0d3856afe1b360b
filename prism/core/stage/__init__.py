"""One stage, decided: which ranks there are, what they wait for, whose turn it is, and when it cannot go well."""

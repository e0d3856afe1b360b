"""When everything happens: replay of a graph, what communication costs, and what a timeline says."""

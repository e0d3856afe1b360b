"""What if the job were another: graphs made from a graph."""

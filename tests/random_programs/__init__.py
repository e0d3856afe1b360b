"""Small random programs of torch.distributed, some of them wrong on purpose, for runs under PRISM and under gloo."""

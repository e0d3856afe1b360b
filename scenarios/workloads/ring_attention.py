"""Ring attention: context-parallel ranks pass keys and values round, while data-parallel replicas see other sequences.

A plain torchrun program that knows nothing of PRISM:

    torchrun --nproc-per-node 8 ring_attention.py --mesh dp=2,cp=4

It has a bug. With `--mesh dp=2,cp=4` neighbours of a ring have neighbouring ranks, and all is well. With
`--mesh cp=4,dp=2` the ranks of a ring are 0, 2, 4, 6 and 1, 3, 5, 7, and it hangs.
"""

import argparse

import torch
import torch.distributed as dist

HEADS, SEQUENCE, WIDTH = 4, 32, 16  # SEQUENCE: of one rank's part


def make_ring(mesh):
    """This rank's ring, as a process group."""
    names, extents = list(mesh), list(mesh.values())
    grid = torch.arange(dist.get_world_size()).view(*extents)
    rings = grid.movedim(names.index("cp"), -1).reshape(-1, mesh["cp"])
    return dist.new_subgroups_by_enumeration(rings.tolist())[0]


def pass_on(tensor, ring):
    """What the rank before has, while the rank behind gets what this one has."""
    ranks, place = dist.get_process_group_ranks(ring), dist.get_rank(ring)
    behind, before = ranks[(place + 1) % len(ranks)], ranks[place - 1]
    arrived = torch.empty_like(tensor)
    if dist.get_rank() % 2 == 0:  # meant is the place in the ring: dist.get_rank(ring)
        dist.send(tensor, behind, group=ring)
        dist.recv(arrived, before, group=ring)
    else:
        dist.recv(arrived, before, group=ring)
        dist.send(tensor, behind, group=ring)
    return arrived


def ring_attention(query, key, value, ring):
    """Attention of this rank's queries over the whole sequence, one part of the keys after the other."""
    total, weight = torch.zeros_like(query), torch.zeros(*query.shape[:-1], 1)
    highest = torch.full_like(weight, -torch.inf)
    for turn in range(dist.get_world_size(ring)):
        if turn:
            key, value = pass_on(torch.stack((key, value)), ring).unbind()
        scores = query @ key.transpose(-1, -2) / WIDTH**0.5
        peak = torch.maximum(highest, scores.amax(-1, keepdim=True))
        share, kept = (scores - peak).exp(), (highest - peak).exp()
        total, weight, highest = total * kept + share @ value, weight * kept + share.sum(-1, keepdim=True), peak
    return total / weight


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mesh", default="dp=2,cp=4")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    ring = make_ring({name: int(extent) for name, extent in (part.split("=") for part in args.mesh.split(","))})
    torch.manual_seed(dist.get_rank())
    for step in range(args.steps):
        query, key, value = torch.randn(3, HEADS, SEQUENCE, WIDTH).unbind()
        norm = ring_attention(query, key, value, ring).norm()
        dist.all_reduce(norm)
        if dist.get_rank() == 0:
            print(f"step {step}: {norm.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

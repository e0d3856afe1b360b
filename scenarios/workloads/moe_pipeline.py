"""A small mixture-of-experts language model on 8 ranks: 2 pipeline stages x 2 data parallel x 2 expert parallel.

A plain torchrun program that knows nothing of PRISM:  torchrun --nproc-per-node 8 moe_pipeline.py --iterations 6
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

PP, DP, EP = 2, 2, 2  # rank = stage * DP * EP + replica * EP + expert rank
VOCAB, DIM, HEADS = 64, 128, 4
LAYERS, EXPERTS, TOP_K = 2, 4, 2  # layers of a stage, experts of a layer, experts of a token


def make_groups():
    """This rank's process groups by name; every rank takes part in the creation of all of them."""
    grid = torch.arange(PP * DP * EP).view(PP, DP, EP)
    members = {
        "pipeline": grid.movedim(0, -1).reshape(-1, PP),  # one rank of each stage
        "stage": grid.reshape(PP, DP * EP),  # they hold the same dense parameters
        "replicas": grid.movedim(1, -1).reshape(-1, DP),  # they hold the same experts
        "experts": grid.reshape(-1, EP),  # together they hold all experts
    }
    return {name: dist.new_subgroups_by_enumeration(ranks.tolist())[0] for name, ranks in members.items()}


class AllToAll(torch.autograd.Function):
    """Uneven exchange of rows within a group; the gradients travel the same way back."""

    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.back = receive, send, group
        arrived = rows.new_empty(sum(receive), DIM)
        dist.all_to_all_single(arrived, rows.contiguous(), receive, send, group=group)
        return arrived

    @staticmethod
    def backward(ctx, gradient):
        return AllToAll.apply(gradient, *ctx.back), None, None, None


class MoE(nn.Module):
    """Sends each token to the ranks that hold its experts and adds up what comes back."""

    def __init__(self, group, seed):
        super().__init__()
        self.group = group
        self.router = nn.Linear(DIM, EXPERTS, bias=False)
        with torch.random.fork_rng():  # ranks of a stage begin alike in everything but their experts
            torch.manual_seed(seed)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM)) for _ in range(EXPERTS // EP)
            )

    def forward(self, tokens):
        gates, choices = self.router(tokens).softmax(-1).topk(TOP_K)
        order = choices.flatten().argsort(stable=True)  # by expert, hence by the rank that holds it
        leaving = choices.flatten().bincount(minlength=EXPERTS)
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving, group=self.group)
        send, receive = (counts.view(EP, -1).sum(1).tolist() for counts in (leaving, arriving))

        rows = AllToAll.apply(tokens[order // TOP_K], send, receive, self.group)
        rows = AllToAll.apply(self.run_experts(rows, arriving), receive, send, self.group)
        return torch.zeros_like(tokens).index_add(0, order // TOP_K, rows * gates.flatten()[order, None])

    def run_experts(self, rows, arriving):
        """Rows come by sender and then by expert; each expert wants all of its rows in one piece."""
        expert = torch.arange(len(self.experts)).repeat(EP).repeat_interleave(arriving)
        order = expert.argsort(stable=True)
        pieces = rows[order].split(arriving.view(EP, -1).sum(0).tolist())
        return torch.cat([run(piece) for run, piece in zip(self.experts, pieces, strict=True)])[order.argsort()]


class Block(nn.Module):
    """Causal attention, then the experts."""

    def __init__(self, group, seed):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.moe = MoE(group, seed)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.moe(self.norm2(x).flatten(0, 1)).view_as(x)


def swap(pipeline, send=None, receive=None):
    """Send to and receive from the other stage in one batch, so that neither direction waits for the other."""
    peer = 1 - dist.get_rank(pipeline)
    calls = [(dist.isend, send), (dist.irecv, receive)]
    ops = [dist.P2POp(call, x, group=pipeline, group_peer=peer) for call, x in calls if x is not None]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return receive


def first_stage(model, batches, pipeline):
    """1F1B: one forward ahead of the last stage, then a forward and a backward in turns."""
    hidden = model(batches[0, :, :-1])
    swap(pipeline, send=hidden.detach())
    for batch in batches[1:]:
        following = model(batch[:, :-1])
        hidden.backward(swap(pipeline, send=following.detach(), receive=torch.empty_like(following)))
        hidden = following
    hidden.backward(swap(pipeline, receive=torch.empty_like(hidden)))


def last_stage(model, batches, pipeline):
    """1F1B: each micro-batch forward and backward; its gradient leaves as the next one arrives. Returns the loss."""
    loss = torch.zeros(())
    hidden = swap(pipeline, receive=torch.empty(*batches[0, :, :-1].shape, DIM))
    for index, batch in enumerate(batches):
        logits = model(hidden.requires_grad_())
        share = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / len(batches)
        share.backward()
        loss += share.detach()
        following = torch.empty_like(hidden) if index + 1 < len(batches) else None
        hidden = swap(pipeline, send=hidden.grad, receive=following)
    return loss


def average_gradients(parameters, group):
    """One all_reduce over those who hold the same parameters. All divide by DP * EP, the data ranks of a stage: also
    the experts, which saw the tokens of each of them."""
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat, group=group)
    for p, total in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad = total.view_as(p) / (DP * EP)


def make_batches(args, iteration, data_rank):
    """Micro-batches of sequences that count upwards in steps of 1 to 4; both stages make the same ones."""
    seeded = torch.Generator().manual_seed(1000 * iteration + data_rank)
    shape = (args.micro_batches, args.micro_batch_size, 1)
    start, step = (torch.randint(low, high, shape, generator=seeded) for low, high in ((0, VOCAB), (1, 5)))
    return (start + step * torch.arange(args.sequence + 1)) % VOCAB


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"iterations": 6, "micro-batches": 4, "micro-batch-size": 4, "sequence": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    groups = make_groups()
    stage, data_rank = divmod(dist.get_rank(), DP * EP)
    torch.manual_seed(stage)
    layers = [Block(groups["experts"], seed=100 * stage + 10 * layer + data_rank % EP) for layer in range(LAYERS)]
    ends = [nn.Embedding(VOCAB, DIM), *layers] if stage == 0 else [*layers, nn.Linear(DIM, VOCAB)]
    model, run = nn.Sequential(*ends), first_stage if stage == 0 else last_stage
    experts = [p for name, p in model.named_parameters() if ".experts." in name]
    dense = [p for name, p in model.named_parameters() if ".experts." not in name]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    for iteration in range(args.iterations):
        optimizer.zero_grad()
        loss = run(model, make_batches(args, iteration, data_rank), groups["pipeline"])
        average_gradients(dense, groups["stage"])
        average_gradients(experts, groups["replicas"])
        optimizer.step()
        if stage == PP - 1:
            dist.all_reduce(loss, group=groups["stage"])
            if data_rank == 0:
                print(f"iteration {iteration}: loss {loss.item() / (DP * EP):.4f}", flush=True)

    if stage == PP - 1 and data_rank == 0:
        print(f"done: {args.iterations} iterations on {dist.get_world_size()} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

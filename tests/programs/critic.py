"""As in a GAN, one optimizer steps as often as the argument says before the other steps once, three times over."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
critic, generator = torch.nn.Linear(2, 1), torch.nn.Linear(2, 2)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
of_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(int(sys.argv[1])):
        critic(torch.ones(1, 2)).sum().backward()
        of_critic.step()
    critic(generator(torch.ones(1, 2))).sum().backward()
    of_generator.step()
    dist.barrier()

"""Neural networks: masked inputs, networks, losses and the rollout of Algorithm 1."""

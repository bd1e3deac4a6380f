"""Networks, the rollout (Algorithm 1), losses and training. The only layer, with those above it,
that imports torch."""

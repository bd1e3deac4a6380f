"""Training: configuration, the loop, and one module per trainer."""

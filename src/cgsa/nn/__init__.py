"""Networks, losses and the bundle that carries a trained model."""

"""Uses a trained model: load, evaluate, predict."""

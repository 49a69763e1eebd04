"""All that knows Keras: training state, checkpoints, the data position, the step, micro-batches."""

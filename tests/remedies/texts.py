"""The remedies of the trainings that are interrupted, as texts."""

EPOCHS = 8
AFTER = 33

TOGETHER = {
    "schedule": "warmup:10,cosine",
    "early_stopping": "val_loss:1,restore",
    "clip": "norm:0.5",
    "regularise": "l2:1e-3,dropout:0.3,batchnorm",
    "augment": "shift:0.1,rotate:0.05",
}

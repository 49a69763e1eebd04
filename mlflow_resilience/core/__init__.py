"""The judgment of the product: pure values and decisions, on the standard library alone."""

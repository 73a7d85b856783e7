"""A training job: model, weights, mode, recipe, optimizer, data, and the step over them."""

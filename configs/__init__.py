"""The Hydra tree and its typed schema: configuration as data. Imported by every layer, imports none of them."""

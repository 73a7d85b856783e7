"""The contract between measuring and analysing: the record of a cell, and the store of a study."""

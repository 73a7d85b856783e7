"""What the cards are and do, asked through NVML: links, visibility, samples while a cell runs."""

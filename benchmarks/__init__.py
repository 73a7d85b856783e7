"""What runs inside the ranks: fine-tune, collectives, parallel modes, meters."""

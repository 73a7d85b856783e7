"""One cell's ranks on this node: started warm, watched, ended, and nothing of them left behind."""

"""Tables, figures and decisions as text, CSV, Markdown, LaTeX, SVG."""

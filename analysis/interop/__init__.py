"""A study in the forms of other tools, and other tools' logs as measurements. Pure: data in, data out."""

"""Which files of a repository a model consists of: patterns, second copies of weights, and what was left out."""

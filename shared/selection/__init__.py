"""Selects the files of a repository that a model consists of: patterns, and duplicate weights to leave out."""

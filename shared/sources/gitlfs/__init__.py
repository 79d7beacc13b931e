"""The source for `git+https://`: a Git repository whose large files are in Git LFS."""

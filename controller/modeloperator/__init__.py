"""Models (`models.example.com`): a claim for each, and a Job that downloads to it."""

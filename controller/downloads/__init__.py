"""Jobs that download a model to a claim: their manifest, their progress and their outcome."""

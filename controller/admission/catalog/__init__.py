"""What admission looks up: models, groups, files and users."""

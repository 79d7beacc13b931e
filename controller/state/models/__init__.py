"""What is known about models: the declared ones, the revisions that stay, and who refers to them."""

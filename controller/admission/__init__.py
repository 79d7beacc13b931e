"""What is asked of the API server's admission: pods rewritten to their model, and plainly wrong objects refused."""

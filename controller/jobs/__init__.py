"""Jobs that Larder creates, and their pods: what it reads of them, live reads, and what blocks them."""

"""The transfer engine, one for all sources: concurrency, rate limit, resume, verification and progress."""

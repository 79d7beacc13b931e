"""The engine that moves a model's bytes: concurrency, rate, resume, verification and progress, once for all sources."""

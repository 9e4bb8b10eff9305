"""The inference engine: scheduler, paged KV cache, models, sampling."""

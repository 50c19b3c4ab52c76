"""Block formats: elements of a few bits that share a scale (MX, NVFP4, DeepSeek's). Facts, and the rules for scales."""

"""Values as people write and read them: the value syntax, .npy files, printing."""

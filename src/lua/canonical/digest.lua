return digest(KEYS[1])

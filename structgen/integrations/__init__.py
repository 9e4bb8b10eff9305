"""The grammar half inside other people's engines. Nothing here is imported unless asked for."""

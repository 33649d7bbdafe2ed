"""The surrogate's laws beside what they foretell."""

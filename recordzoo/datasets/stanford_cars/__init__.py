"""Stanford Cars."""

"""Answers of a fitted model: distributions, scores and inspection."""

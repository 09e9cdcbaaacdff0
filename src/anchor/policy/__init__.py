"""The composition policy: its distribution under limits, and how it learns (GRPO)."""

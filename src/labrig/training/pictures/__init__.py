"""Pictures of what a network sees and says."""

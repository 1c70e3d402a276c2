"""One directory per idea. A directory here is a trial; it imports the package, never another trial."""

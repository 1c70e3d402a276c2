"""The machine under the program: processors, memory, file systems, ranks. Standard library only."""

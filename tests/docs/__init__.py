"""What tests/test_docs.py is made of: pages read, their commands run, their tables made."""

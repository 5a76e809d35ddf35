"""What tests of more than one tier use lies beside this file, where each of them finds it."""

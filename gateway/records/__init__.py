"""What travels inside: frozen, slotted dataclasses without behaviour of their own."""

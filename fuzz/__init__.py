"""Programs that feed damaged input to what reads files; ``make fuzz`` runs them."""

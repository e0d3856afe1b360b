"""How processes talk: messages, transports, payloads and launching."""

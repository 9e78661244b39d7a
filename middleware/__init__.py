"""The way in: one aiohttp middleware a file, each of which learns one fact. `surfaces` puts them in order."""

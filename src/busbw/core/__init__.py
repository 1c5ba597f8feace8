"""The nouns: frozen data that passes between the rooms. numpy and the standard library only."""

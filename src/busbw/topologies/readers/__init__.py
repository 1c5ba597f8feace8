"""Other tools' descriptions of a machine -> nouns that can make a Topology; one file a format."""

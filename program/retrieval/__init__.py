"""Retrieval: encoders, the index and its engines, fusion, ranking, and the retriever that uses them all."""

"""Thin views of one tested computation: table, CSV, figure."""

"""The partitioners of DistDGL and PaGraph, and the balance that they keep."""

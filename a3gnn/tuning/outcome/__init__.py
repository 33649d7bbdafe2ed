"""What is made of tunes that are there, without a trial: picked from, compared, exported."""

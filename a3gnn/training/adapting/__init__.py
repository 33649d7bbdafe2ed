"""One trainer whose mini-batches are prepared otherwise while it trains: by what its stages take, and by memory."""

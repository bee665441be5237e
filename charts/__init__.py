"""What the chart and the image are made with; nothing here is installed."""

"""What is over is settled, archived and taken away."""

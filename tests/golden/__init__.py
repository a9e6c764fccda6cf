"""Golden files made by paddlepaddle 1.8.5, the models they belong to, and the code that replays them."""

"""Measuring: where the time of a step goes, what a training will take, which of two is faster."""

COMMANDS = [
    ("bench", "where a step's time goes, and what a training will take", "bench:bench_command"),
]

PROVIDES = [
    ("forecast_from_bench", "forecast:forecast_from_bench"),
    ("print_forecast", "forecast:print_forecast"),
    ("peak_tflops", "result:peak_tflops"),
]

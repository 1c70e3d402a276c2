from src.utils.pylogger import get_logger

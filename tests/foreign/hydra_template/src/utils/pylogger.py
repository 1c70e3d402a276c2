import logging
import os, sys

def get_logger( name:str ) -> logging.Logger:
    'written in a style of its own'
    return logging.getLogger( name )

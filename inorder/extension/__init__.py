"""The extension's files: built from the sources that this package carries, installed where a server looks for them."""

"""A folder of Parquet files with the traces of many ranks and runs, and questions about them."""

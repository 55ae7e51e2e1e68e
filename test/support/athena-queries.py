"""Reads statements of Athena's from a file of JSON, by sqlglot: prints the columns of a table, a query as DuckDB has it."""

import json
import sys

import sqlglot
from sqlglot import exp

with open(sys.argv[1], encoding="utf-8") as statements:
    for text in json.load(statements):
        statement = sqlglot.parse_one(text, dialect="athena")
        if isinstance(statement, exp.Create):
            columns = [column.name for column in statement.find_all(exp.ColumnDef)]
            print(json.dumps({"columns": columns}))
        else:
            query = statement.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
            print(json.dumps({"query": query}))

"""The paper's experiments: data sets, grids of fits, records, tables, figures and result pages."""

"""Arrays of callers, to buffers and back: types, layouts, DLPack, donation, results that are given."""

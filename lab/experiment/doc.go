// Package experiment runs experiments: the figures of the papers that peerd builds on, and
// comparisons over any data file. An experiment is a function of its seed and runs the
// peers' own code, on virtual time if it needs time.
//
// This package defines what an experiment is, the parameters and files of a run, and how
// results are written, shown and streamed. An [Experiment] gets [Params] and writes rows,
// plots and notes to an [Out], which become results.json, CSV, SVG and an HTML page,
// or one JSON object per line.
//
// Experiments are in packages by topic, each with its own list: coordinates, choose,
// delegate, malet, scale. They import this package but not each other; package list
// joins them. Package data loads data files, crawlsim simulates a crawl on virtual time,
// experimenttest helps tests. This package imports none of them.
//
// Files: experiment.go what an experiment is; run.go checking and running one; file.go
// runs from a TOML file; result.go the result of a run; intervals.go means of runs;
// write.go, html.go, svg.go results as JSON, CSV, text, page and plots; progress.go progress.
package experiment

// Package lab runs experiments: the figures of the papers that peerd builds on,
// and comparisons over any data file. An experiment is deterministic by its
// seed and runs the product's own code, on virtual time where there is time.
//
// This package is the frame: what an experiment is, the parameters and files of
// a run, its results and how they are written, shown and streamed. An
// [Experiment] gets [Params] and writes rows, plots and remarks to an [Out],
// which makes results.json, CSV, SVG and a page of HTML of them, or one JSON
// object a line.
//
// The experiments are in packages by theme, each with a list of its own:
// coordinates, choose, delegate, malet, scale. They import the frame and never
// each other; lab/list puts them together for the command line. lab/data loads
// data files, lab/sim is a crawl on virtual time, lab/labtest helps to test.
// The frame imports none of them.
//
// Files: lab.go what an experiment is; run.go checking and running one; file.go
// runs from a TOML file; result.go what a run has found; write.go, html.go,
// svg.go results as JSON, CSV, text, a page, drawings; progress.go how far it is.
package lab

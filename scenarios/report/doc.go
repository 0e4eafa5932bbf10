// Package report writes down what a run of scenario suites found: report.json for programs, junit.xml for CI and
// report.html for people.
//
// A spec attaches what it measured with [Attach]: figures, latency histograms, timelines, tables. When the suites have run, [New]
// makes a [Report] of ginkgo's own report and these entries, and [Report.Write] writes the three files. The HTML is one file
// that needs nothing else, no network either. All text in it is escaped by html/template, and text in charts by the
// chart library, because names of software, users and certificates come from clients.
package report

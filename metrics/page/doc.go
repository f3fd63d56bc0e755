// Package page shows a job to people: what one process knows of it, as a live page and
// as JSON.
//
//	/            the page: HTML, CSS and SVG; nothing comes from elsewhere
//	/live        what the page asks for, again and again: small, see live.go
//	/debug/view  the whole Snapshot, for scripts and for reading
//
// It knows neither agents nor launchers: who has a job gives a function that takes a
// Snapshot of it. The files of the page hold nothing of the job and are given to anyone;
// the numbers take the key of the server, where there is one. The page asks for it and
// keeps it in the browser's sessionStorage: it is in no address, no cookie and no log.
package page

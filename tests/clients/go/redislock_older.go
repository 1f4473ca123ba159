//go:build older

package main

var redislockMore = redislockCommon

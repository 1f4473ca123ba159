//go:build older

package main

var redsyncMore = redsyncCommon

// saysExpired returns false: before 4.12 a release did not distinguish an expired lock from one
// that another holds.
func saysExpired(error) bool {
	return false
}

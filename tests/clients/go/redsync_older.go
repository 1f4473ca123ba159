//go:build older

package main

var redsyncMore = redsyncCommon

// saysExpired: before 4.12 a release did not tell a lock that ran out from one that another holds.
func saysExpired(error) bool {
	return false
}
